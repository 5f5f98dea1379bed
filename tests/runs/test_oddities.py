"""Conflicts, strangers, rare classes, and two classes that look like one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as draw
from hypothesis import strategies as st

from csot.clean import duplicates, verdicts
from csot.runs import Run
from csot.runs.findings import NO_CLASS_FITS, TOO_FEW_ROWS
from csot.runs.oddities import find_oddities, find_twins, in_conflict


def test_the_notes_are_those_of_the_cleaner() -> None:
    assert {NO_CLASS_FITS, TOO_FEW_ROWS} <= set(verdicts.NOTES)
    assert (NO_CLASS_FITS, TOO_FEW_ROWS) == ("no class fits", "too few rows of this class")
    assert duplicates.NOTE == "a near-duplicate has another label"


def test_conflicts_by_hand() -> None:
    group = np.array([0, 0, 1, 1, 2, 2, -1, 3, 3, 3])
    given = np.array([0, 1, 2, 2, 0, -1, 1, 0, 1, -1])
    expected = [True, True, False, False, False, False, False, True, True, False]
    assert in_conflict(group, given).tolist() == expected
    assert not in_conflict(np.full(3, -1), np.arange(3)).any()


@draw(st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 2)), max_size=30))
def test_conflicts_are_those_of_the_definition(rows: list[tuple[int, int]]) -> None:
    group, given = (np.array([row[k] for row in rows], dtype=np.int64) for k in (0, 1))
    slow = [
        g >= 0 and y >= 0 and any(h == g and z >= 0 and z != y for h, z in rows) for g, y in rows
    ]
    assert in_conflict(group, given).tolist() == slow


def test_groups_come_back_from_the_run(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    ids = pd.Index(["=a", "b", "c", "d", "e"])
    given = np.array([0, 1, 0, 0, 2])
    notes = ["", NO_CLASS_FITS, "", TOO_FEW_ROWS, ""]
    assert run.read_duplicates() is None
    assert not find_oddities(run, ids, given, notes).duplicate.any()
    run.write_excel_safe(True)
    run.write_duplicates(pd.Series([7, 7, -1, 3, 3], index=ids))
    odd = find_oddities(run, ids, given, notes)
    assert odd.group.tolist() == [7, 7, -1, 3, 3]
    assert [rows.tolist() for rows in odd.conflicts()] == [[3, 4], [0, 1]]
    assert odd.stranger.tolist() == [False, True, False, False, False]
    assert odd.rare.all(), "no class has five rows"
    (run.path / "duplicates.csv").write_text("id,duplicate_group\nb,x\n")
    with pytest.raises(ValueError, match=r"duplicates\.csv is not a table of near-duplicates"):
        run.read_duplicates()


def test_two_names_of_one_class_are_found() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 2000)
    given = np.where(truth == 3, rng.choice([3, 4], 2000, p=[0.8, 0.2]), truth)
    predicted = np.where(truth == 3, rng.choice([3, 4], 2000, p=[0.8, 0.2]), truth)
    found = find_twins(given, predicted)
    assert [(twins.first, twins.second) for twins in found] == [(3, 4)]
    assert found[0].rows == (truth == 3).sum()
    larger = np.where(truth == 3, 3, truth)  # the prediction always takes the frequent name
    assert [(twins.first, twins.second) for twins in find_twins(given, larger)] == [(3, 4)]
    noisy = np.where((truth == 0) & (rng.random(2000) < 0.4), 1, truth)
    assert find_twins(noisy, truth) == [], "noise from one class to another is not a second name"
    assert find_twins(np.full(3, -1), np.zeros(3, np.int64)) == []
