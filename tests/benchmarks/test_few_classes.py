"""Subsets of few classes: which rows they take, and what the table says."""

from __future__ import annotations

import numpy as np
import pytest

from cleaning.cells import Data
from few_classes import measured, subset, table


@pytest.fixture(scope="module")
def data() -> Data:
    rng = np.random.default_rng(0)
    truth = np.arange(2000) % 4
    features = rng.normal(size=(2000, 6)).astype(np.float32)
    features[:, :4] += 6 * np.eye(4, dtype=np.float32)[truth]
    given = np.where(rng.random(2000) < 0.3, (truth + rng.integers(1, 4, 2000)) % 4, truth)
    return Data(features, truth, features[:40], truth[:40], {"file": given})


@pytest.mark.parametrize("noise", ["none", "sym0.2", "file"])
def test_rows_are_of_the_classes_by_both_labels(data: Data, noise: str) -> None:
    features, given, truth = subset(data, (1, 3), noise, 300)
    assert len(features) == len(given) == len(truth) == 300
    assert set(truth) == set(given) == {0, 1}
    assert np.array_equal(features[:, 1] > features[:, 3], truth == 0)
    assert 0.02 < (given != truth).mean() < 0.25 or noise == "none"


def test_the_table_holds_means_over_the_sets_of_classes(data: Data) -> None:
    found = {
        f"{classes} file 300": measured(
            *subset(data, tuple(map(int, classes.split(","))), "file", 300), 2
        )
        for classes in ("0,1", "1,3")
    }
    shown = table(found)
    (count,), (noise,), (right,) = (list(shown.columns[i].cells) for i in range(3))
    assert (count, noise) == ("2", "file")
    given, ours, _ = map(float, str(right).split(", "))
    assert given == pytest.approx(np.mean([r["given"] for r in found.values()]), abs=6e-4)
    assert ours > 0.97
