"""The runs on digits from which figures are drawn where a user gives none."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest

import csot.gallery as gallery
from csot.figures import curves
from csot.figures.catalogue import DemoGroup
from csot.runs import Run


def test_runs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "METHODS", ("elr",))
    monkeypatch.setattr(gallery, "EPOCHS", {"epochs": 1, "dataset.limit": 100})
    monkeypatch.setattr(gallery.os, "cpu_count", lambda: 1)
    made = gallery.demo_runs("methods", tmp_path)
    (run,) = made.runs
    assert Run.open(run).read_summary()["method"] == "elr"
    written = (run / "summary.json").stat().st_mtime_ns
    steps: list[tuple[str, int, int]] = []
    again = gallery.demo_runs("methods", tmp_path, lambda *step: steps.append(step))
    assert again == made
    assert (run / "summary.json").stat().st_mtime_ns == written
    assert steps == [("training elr sym:0.5", 1, 1)]
    with pytest.raises(ValueError, match="no run has measured clean_accuracy"):
        curves(made.runs)


def test_figures_share_runs() -> None:
    groups = {name: gallery._cells(name) for name in get_args(DemoGroup)}
    assert [cell.name for cell in groups["epsilon"]] == [
        "csot",
        "csot epsilon=0.02",
        "csot epsilon=0.5",
    ]
    assert groups["cleaning"] == groups["verified"] == []
    different = {cell for cells in groups.values() for cell in cells}
    assert len(different) == 11 < sum(map(len, groups.values()))


def test_digits_with_wrong_labels(tmp_path: Path) -> None:
    table, truth = gallery._write_data(tmp_path / "data")
    given, true = pd.read_csv(table), pd.read_csv(truth)
    assert given["image"].tolist() == true["id"].tolist()
    assert (given["label"] != true["true_label"]).mean() == pytest.approx(0.3, abs=0.04)
    first = gallery.pixels([tmp_path / "data" / name for name in given["image"][:3]])
    assert first.shape == (3, 64)
    assert 0.9 < first.max() <= 1
    verified = gallery._write_verified(tmp_path / "verified.csv", truth, 25)
    assert verified is not None
    known = pd.read_csv(verified).merge(true, on="id")
    assert len(known) == 25
    assert np.array_equal(known["label"], known["true_label"])
    assert gallery._write_verified(tmp_path / "none.csv", truth, 0) is None
