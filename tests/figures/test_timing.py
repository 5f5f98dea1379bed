"""The timing table: what is measured, kept and written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from csot.figures import timing
from csot.figures.solver.timing_cells import PAPER, QUICK, Cell

SIZES = ((30, 4), (20, 20))


def test_ten_times_a_hundred_iterations(tmp_path: Path) -> None:
    cells: list[Cell] = []
    drawing = timing(SIZES, kept=tmp_path / "timing.json", repeats=1, on_cell=cells.append)
    fixed = [cell for cell in cells if cell.method != "csot"]
    assert {cell.inner_iterations for cell in fixed} == {1000}
    assert all(cell.inner_iterations < 1000 for cell in cells if cell.method == "csot")
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
    rows[0]["torch"] = "0.1"  # measured by another version: not taken over
    kept.write_text(json.dumps(rows))
    table = timing(SIZES[:1], kept=kept, repeats=1).data
    assert table[["VDA_seconds", "ESI_seconds"]].iloc[0].tolist() == [7.0, 7.0]
    assert table["csot_seconds"].iloc[0] < 7.0
    kept.write_text("[{}]")
    assert timing(SIZES[:1], kept=kept, repeats=1).data["VDA_seconds"].iloc[0] < 7.0


def test_the_sizes_are_the_papers() -> None:
    assert len(PAPER) == 9
    assert set(QUICK) < set(PAPER)
    assert PAPER[3000, 3000] == (3.74, 0.99)


def test_published_seconds_stand_beside_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAPER, SIZES[0], (3.5, 2.5))
    drawing = timing(SIZES[:1], repeats=1)
    assert drawing.data["ESI_seconds_paper_A100"].tolist() == [2.5]
    assert drawing.texts is not None
    last = drawing.texts["tex"].splitlines()[-3]
    assert last.startswith("(30, 4) & ")
    assert last.endswith(r"& 3.50 & 2.50 \\")
