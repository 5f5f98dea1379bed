"""The door to training data: names, paths, and a balanced part of either."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from csot.data import Columns, DataError
from csot.data.datasets.core.dataset_registry import (
    TestSet,
    TrainingData,
    as_text,
    data_path,
    fair_shares,
    read_training_data,
)
from csot.data.samples import InMemory


def test_digits() -> None:
    data = read_training_data("digits")
    test = data.tests[0]
    assert (len(data), len(test.samples)) == (1347, 450)
    assert data.train.shape == (1, 8, 8)
    pixels, target = load_digits(return_X_y=True)
    rows = np.array([int(key) for key in data.ids])
    images = data.train.batch(torch.arange(1347))
    assert images.dtype == torch.uint8
    np.testing.assert_array_equal(
        images.numpy().reshape(1347, 64), np.rint(pixels[rows] * 255 / 16).astype(np.uint8)
    )
    assert data.labels.tolist() == target[rows].tolist()
    assert data.true_labels is not None
    assert torch.equal(data.true_labels, data.labels)
    # The test rows are the others, and the split keeps the shares of the classes.
    others = np.setdiff1d(np.arange(1797), rows)
    assert len(others) == 450
    assert np.bincount(target[others]).tolist() == test.labels.bincount().tolist()
    assert 43 <= int(test.labels.bincount().min()) <= int(test.labels.bincount().max()) <= 47
    assert read_training_data("digits").ids == data.ids
    assert sorted(rows.tolist()) != rows.tolist()
    scaled = images.double() / 255
    assert data.mean is not None
    assert data.std is not None
    assert float(scaled.mean()) == pytest.approx(data.mean[0], abs=1e-4)
    assert float(scaled.std()) == pytest.approx(data.std[0], abs=1e-4)


def test_a_name_stands_for_its_data_set_beside_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the results of `csot compare digits --out digits`."""
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match=r"write \./digits for the path"):
        assert len(read_training_data("digits")) == 1347
    for path in ("./digits", Path("digits")):
        assert data_path(path) == data_path(as_text(path)) == Path("digits")
        with pytest.raises(DataError, match="no image"):
            read_training_data(path)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("digit", "did you mean 'digits'"),
        ("CIFAR10", "did you mean 'cifar10'"),
        ("cifar10n", "of cifar10n there are cifar10n:aggre, cifar10n:worse"),
        ("cifar10n:worst", "cifar10n:worse"),
        ("no/such/folder", "neither a path nor one of digits"),
    ],
)
def test_unknown_names(name: str, hint: str) -> None:
    with pytest.raises(DataError, match=hint):
        read_training_data(name)


def test_a_path_is_not_a_name() -> None:
    with pytest.raises(DataError, match="neither a path"):
        read_training_data(Path("digits"))


def test_options_that_belong_to_paths(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="drop `test`"):
        read_training_data("digits", test=tmp_path)
    with pytest.raises(DataError, match="drop the columns"):
        read_training_data("digits", columns=Columns(label="x"))
    with pytest.raises(DataError, match="`image_size` 32 is for image files"):
        read_training_data("digits", image_size=32)
    assert len(read_training_data("digits", columns=Columns(), image_size=8)) == 1347


def test_limit_is_balanced_and_fixed() -> None:
    whole = read_training_data("digits")
    part = read_training_data("digits", limit=205)
    assert len(part) == 205
    assert set(part.labels.bincount().tolist()) == {20, 21}
    assert part.ids == read_training_data("digits", limit=205).ids
    assert part.ids != read_training_data("digits", limit=205, seed_for_limit=1).ids
    rows = torch.tensor([whole.ids.index(key) for key in part.ids])
    assert torch.equal(rows, rows.sort().values)
    assert torch.equal(part.labels, whole.labels[rows])
    assert torch.equal(part.train.batch(torch.arange(205)), whole.train.batch(rows))
    assert len(part.tests[0].samples) == 450
    assert len(read_training_data("digits", limit=9999)) == 1347
    with pytest.raises(DataError, match="`limit` 9 is less"):
        read_training_data("digits", limit=9)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(0, 100))
def test_shares_are_fair(counts: list[int], extra: int) -> None:
    limit = len(counts) + extra
    shares = fair_shares(np.array(counts), limit)
    assert sum(shares) == min(limit, sum(counts))
    assert all(share <= count for share, count in zip(shares, counts, strict=True))
    # Who got less than another by more than the remainder had no more to give.
    most = max(shares)
    assert all(s >= most - 1 or s == c for s, c in zip(shares, counts, strict=True))


def made() -> TrainingData:
    samples = InMemory(torch.zeros(3, 2))
    return TrainingData("made", samples, torch.tensor([0, 1, -1]), ["a", "b"], ["x", "y", "z"], [])


def test_labels_are_checked() -> None:
    data = made()
    assert data.with_labels(torch.tensor([1, 1, 0])).labels.tolist() == [1, 1, 0]
    with pytest.raises(DataError, match="2 in row 1"):
        data.with_labels(torch.tensor([0, 2, 0]))
    with pytest.raises(DataError, match=r"int64 \(3,\) is needed"):
        data.with_labels(torch.tensor([0, 1]))
    with pytest.raises(DataError, match="int32"):
        data.with_labels(torch.zeros(3, dtype=torch.int32))
    with pytest.raises(DataError, match="true labels"):
        replace(data, true_labels=torch.tensor([5, 0, 0]))
    with pytest.raises(DataError, match="'t': -1 in row 0"):
        replace(data, tests=[TestSet("t", InMemory(torch.zeros(1, 2)), torch.tensor([-1]))])
    with pytest.raises(DataError, match="they must agree"):
        replace(data, tests=[TestSet("t", InMemory(torch.zeros(1, 3)), torch.tensor([0]))])
