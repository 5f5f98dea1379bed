"""Accuracy over the values of a setting: the table, the picture and the chart of the page."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from csot.figures.comparison.comparison import Change, Comparison, draw_sweep
from csot.figures.comparison.comparison_files import write_comparison
from csot.figures.comparison.page import sweep_panels
from figures.made_cells import write_run

REACHED = {"10.0": (0.90, 0.92, 0.97), "0": (0.80, 0.80, 0.80), "0.5": (0.85, 0.86, 0.90)}
"""Accuracies of three seeds by value of kappa, as they were given: out of order."""


@pytest.fixture
def swept(tmp_path: Path) -> Comparison:
    places, changes = {}, {}
    for text, accuracies in REACHED.items():
        change = Change.of("coherence", float(text), "csot")
        name = f"csot {change}"
        changes[name] = ("csot", change)
        for noise, less in (("sym:0.8", 0.1), ("asym:0.4", 0.0)):
            for seed, accuracy in enumerate(accuracies):
                folder = tmp_path / f"{name}-{noise}-{seed}".replace(":", "-")
                write_run(folder, noise=noise, seed=seed, last=accuracy - less)
                places[name, noise, seed] = folder
    return Comparison.read(places, changes)


def test_mean_and_deviation_by_rising_value(swept: Comparison) -> None:
    table = swept.sweep()
    assert table["noise"].tolist() == ["sym:0.8"] * 3 + ["asym:0.4"] * 3, "as given"
    mine = table[table["noise"] == "asym:0.4"]
    assert mine["value"].tolist() == ["0", "0.5", "10"]
    wanted = [100 * np.array(REACHED[value]) for value in ("0", "0.5", "10.0")]
    assert mine["last_mean"].tolist() == pytest.approx([values.mean() for values in wanted])
    assert mine["last_sd"].tolist() == pytest.approx([values.std(ddof=1) for values in wanted])
    assert set(table["seeds"]) == {3}


def test_picture_and_files(swept: Comparison, tmp_path: Path) -> None:
    (axis,) = draw_sweep(swept.sweep()).axes
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["0", "0.5", "10"]
    write_comparison(swept, tmp_path, "csot compare")
    assert pd.read_csv(tmp_path / "sweep.csv")["value"].tolist() == [0, 0.5, 10] * 2
    assert (tmp_path / "sweep.png").stat().st_size > 1000
    page = (tmp_path / "compare.html").read_text(encoding="utf-8")
    assert "<h3>csot: coherence</h3>" in page
    assert page.count("<circle") == 6


def test_the_chart_of_the_page(swept: Comparison) -> None:
    (panel,) = sweep_panels(swept.sweep())
    assert [line.noise for line in panel.lines] == ["asym:0.4", "sym:0.8"], "from the top"
    for line in panel.lines:
        assert all(left.y > right.y and left.x < right.x for left, right in pairwise(line.points))
        assert all(point.high <= point.y <= point.low for point in line.points)
    scale = (panel.y_ticks[0].at - panel.y_ticks[-1].at) / (
        float(panel.y_ticks[-1].text) - float(panel.y_ticks[0].text)
    )
    first, second = (line.points[0].y for line in panel.lines)
    assert second - first == pytest.approx(10 * scale, abs=0.2), "ten points apart"
    assert sweep_panels(pd.DataFrame()) == []


def test_values_are_written_in_one_way() -> None:
    assert Change.of("epsilon", 0.10) == Change.of("epsilon", 0.1)
    assert str(Change.of("training.epochs", 3)) == "epochs=3"
    values = [Change.of("x", value).order for value in ("knn", 10, 0.5, "cosine")]
    assert sorted(values) == [values[2], values[1], values[3], values[0]]
