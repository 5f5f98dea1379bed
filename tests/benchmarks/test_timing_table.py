"""benchmarks/timing.py: the paper's algorithms as written, measured, kept and tabulated."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import timing
from csot.figures.solver.timing_cells import PAPER, timing_problem
from published import dykstra_iteration, scaling_iteration, solve_published


def test_both_algorithms_have_the_same_iterates() -> None:
    """Lemma 1."""
    probs, features, labels = timing_problem(60, 5)
    cost = -probs.double().log()
    a, b = torch.full((60,), 1 / 60).double(), torch.full((5,), 0.06).double()
    for count in (1, 2, 30):
        by_matrices = dykstra_iteration(cost, a, b, 0.1, count)
        torch.testing.assert_close(by_matrices, scaling_iteration(cost, a, b, 0.1, count, True))
    found = [
        solve_published(probs, features, labels, 0.3, dykstra=way).objective
        for way in (True, False)
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-9)


def test_cells_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAPER, (30, 3), (2.5, 1.5))
    kept = tmp_path / "kept.json"
    cells = timing.all_as_written(kept, [(30, 3)], 1)
    assert [cell.method for cell in cells] == ["ESI", "VDA"]
    assert timing.all_as_written(kept, [(30, 3)], 1) == cells
    measured = timing.measure([(30, 3)], repeats=1)
    line = timing.markdown(measured, cells).splitlines()[-1]
    assert line.startswith("| (30,&nbsp;3) | ")
    assert line.endswith("| 2.50, 1.50 |")


def test_seconds_have_three_digits() -> None:
    shown = [timing.written(value) for value in (0.001234, 0.0567, 1.0, 12.34, 1234.5)]
    assert shown == ["0.00123", "0.0567", "1.00", "12.3", "1,234"]
