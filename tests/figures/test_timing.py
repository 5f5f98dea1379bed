"""The timing table: what is measured, kept and written."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from csot.figures import timing
from csot.figures.solver import timing_cells, timing_progress
from csot.figures.solver.timing_cells import FIXED, PAPER, Cell

SIZES = ((30, 4), (20, 20))


def test_ten_times_a_hundred_iterations(tmp_path: Path) -> None:
    cells: list[Cell] = []
    drawing = timing(SIZES, kept=tmp_path / "timing.json", repeats=1, on_cell=cells.append)
    fixed = [cell for cell in cells if cell.method in FIXED]
    assert {(cell.inner_iterations, cell.measured_iterations) for cell in fixed} == {(1000, 1000)}
    assert all(cell.inner_iterations < 1000 for cell in cells if cell.method not in FIXED)
    # All that is compared is computed in the same precision.
    assert {(cell.method, cell.dtype) for cell in cells} == {
        *((method, "float64") for method in ("VDA", "ESI", "csot")),
        ("csot_float32", "float32"),
    }
    table = drawing.data
    assert table[["N", "C"]].to_numpy().tolist() == [list(size) for size in SIZES]
    by_place = {(cell.rows, cell.method): cell.seconds for cell in cells}
    assert table["VDA_seconds"].tolist() == [by_place[30, "VDA"], by_place[20, "VDA"]]
    assert table["VDA_per_ESI"].iloc[0] == by_place[30, "VDA"] / by_place[30, "ESI"]
    # Sizes that the paper does not have have no published seconds.
    assert table["VDA_seconds_paper_A100"].isna().all()
    assert len(drawing.draw("light").axes) == 1


def test_what_is_kept_is_not_measured_again(tmp_path: Path) -> None:
    kept = tmp_path / "timing.json"
    timing(SIZES[:1], kept=kept, repeats=1)
    rows = json.loads(kept.read_text())
    for row in rows:
        row["seconds"] = 7.0
    mine = next(row for row in rows if row["method"] == "csot")
    mine["torch"] = "0.1"  # measured by another version: not taken over
    kept.write_text(json.dumps(rows))
    table = timing(SIZES[:1], kept=kept, repeats=1).data
    assert table[["VDA_seconds", "ESI_seconds"]].iloc[0].tolist() == [7.0, 7.0]
    assert table["csot_seconds"].iloc[0] < 7.0
    kept.write_text("[{}]")
    assert timing(SIZES[:1], kept=kept, repeats=1).data["VDA_seconds"].iloc[0] < 7.0


def test_the_sizes_are_the_papers() -> None:
    assert len(PAPER) == 9
    assert PAPER[3000, 3000] == (3.74, 0.99)


def test_quick_scales_the_time_of_few_iterations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a clock of one second per iteration, one per outer step, and ten for the first."""
    passed = 0.0

    def solve(*_: object, **options: int) -> SimpleNamespace:
        nonlocal passed
        outer, inner = options.get("max_outer", 1), options.get("inner_iterations", 0)
        passed += 9 + outer + outer * inner
        return SimpleNamespace(inner_iterations=outer * inner)

    monkeypatch.setattr(timing_cells, "solve", solve)
    monkeypatch.setattr(timing_cells.time, "process_time", lambda: passed)
    monkeypatch.setattr(timing_cells, "WALL", ("wall", lambda: passed))
    kept = tmp_path / "timing.json"
    drawing = timing(SIZES, kept=kept, quick=True)
    table = drawing.data
    assert table["VDA_seconds"].tolist() == pytest.approx([9 + 10 + 1000] * 2)
    assert set(table["ESI_iterations_measured"]) == {timing_cells.FEWEST}
    assert drawing.texts is not None
    assert r"1019\rlap{$^*$}" in drawing.texts["tex"]
    assert "measured 5 of 1,000 iterations, time scaled" in drawing.texts["tex"]
    # The full table measures them, and a quick one then takes over what was measured in full.
    full = timing(SIZES, kept=kept, repeats=1)
    assert set(full.data["VDA_iterations_measured"]) == {1000}
    assert full.texts is not None
    assert "scaled" not in full.texts["tex"]
    assert timing(SIZES, kept=kept, quick=True).data.equals(full.data)


def test_quick_measures_small_problems_in_full() -> None:
    assert set(timing(SIZES, quick=True).data["VDA_iterations_measured"]) == {1000}


def test_progress_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(timing_progress.time, "perf_counter", lambda: now)
    said: list[tuple[int, int]] = []
    places = [(400, 400, "VDA"), (400, 800, "VDA")]
    progress = timing_progress.TimingProgress(
        places, False, lambda _, done, total: said.append((done, total))
    )
    with progress.measuring(places[0]):
        now = 100.0
    with progress.measuring(places[1]):
        pass
    assert said[-1] == (100, 300)  # twice the size, twice the time


def test_published_seconds_stand_beside_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAPER, SIZES[0], (3.5, 2.5))
    drawing = timing(SIZES[:1], repeats=1)
    assert drawing.data["ESI_seconds_paper_A100"].tolist() == [2.5]
    assert drawing.texts is not None
    (line,) = [line for line in drawing.texts["tex"].splitlines() if line.startswith("(30, 4)")]
    assert line.endswith(r"& 3.50 & 2.50 \\")
