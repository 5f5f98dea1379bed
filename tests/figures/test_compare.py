"""Tables and curves of a comparison, from records written by hand."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pandas as pd
import pytest

from csot.figures.comparison.comparison import Comparison, best_last, latex, rows_for
from csot.figures.comparison.comparison_files import draw_curves, write_comparison
from csot.figures.comparison.page import nice_ticks
from csot.figures.training.curves import draw_history, write_history
from figures.made_cells import write_cells


def comparison(seeds: int = 2) -> Comparison:
    cells, histories = [], {}
    for method, base in (("cross_entropy", 0.8), ("csot", 0.9)):
        for noise in ("sym:0.5", "asym:0.4"):
            for seed in range(seeds):
                last = base + 0.02 * seed
                cells.append(
                    {
                        "method": method,
                        "noise": noise,
                        "seed": seed,
                        "best": last + 0.01,
                        "last": last,
                        "peak": last + 0.02,
                        "seconds": 10.0,
                        "epochs": 3,
                    }
                )
                frame = pd.DataFrame({"epoch": [1, 2, 3], "test_accuracy": [0.5, 0.6, last]})
                if method == "csot":
                    frame["clean_accuracy"] = [math.nan, 0.9, 0.95]
                histories[method, noise, seed] = frame
    return Comparison(pd.DataFrame(cells), histories)


def test_mean_and_deviation_in_per_cent() -> None:
    table = comparison().table()
    row = table[(table["method"] == "csot") & (table["noise"] == "sym:0.5")].iloc[0]
    assert row["seeds"] == 2
    assert row["last_mean"] == pytest.approx(91.0)
    assert row["last_sd"] == pytest.approx(math.sqrt(2.0))
    assert row["best_mean"] == pytest.approx(92.0)


def test_one_seed_has_no_deviation() -> None:
    rows = rows_for(comparison(seeds=1), "sym:0.5")
    assert rows[0] == ["csot", "90.00", "92.00", "91.00", "10"]


def test_the_highest_last_accuracy_wins() -> None:
    found = comparison()
    assert best_last(found.table()) == {"sym:0.5": "csot", "asym:0.4": "csot"}
    text = latex(found.table(), found)
    assert r"\textbf{91.00 $\pm$ 1.41}" in text
    assert r"cross\_entropy & 81.00 $\pm$ 1.41 & 83.00" in text


def test_further_test_sets_and_top_five_are_columns() -> None:
    found = comparison()
    cells = found.cells.assign(best=None, top5_last=0.99, ilsvrc12_last=0.7, ilsvrc12_top5_last=0.8)
    wide = Comparison(cells, found.histories)
    assert wide.shown() == {
        "last": "last",
        "peak": "peak",
        "top-5": "top5_last",
        "ilsvrc12": "ilsvrc12_last",
        "ilsvrc12 top-5": "ilsvrc12_top5_last",
    }, "without best: no rows were held out"
    assert rows_for(wide, "sym:0.5")[0][3:] == [
        "99.00 ± 0.00",
        "70.00 ± 0.00",
        "80.00 ± 0.00",
        "10",
    ]


def test_many_methods_get_a_panel_each(tmp_path: Path) -> None:
    methods = {f"method_{number}": 0.9 - 0.02 * number for number in range(8)}
    places = write_cells(tmp_path, methods, ["sym:0.5"], range(1))
    write_comparison(Comparison.read(places), tmp_path, "csot compare")
    page = (tmp_path / "compare.html").read_text(encoding="utf-8")
    lines = re.findall(r'<polyline id="([^"]+)"', page)
    assert len(lines) == len(set(lines)) == 3 * 8, "three curves"
    assert sorted(re.findall(r'<use class="single" href="#([^"]+)"', page)) == sorted(lines)
    table = pd.read_csv(tmp_path / "cells.csv")
    assert table["run"][0] == "cells/method_0/sym-0.5/seed-0"


def test_every_file_is_written(tmp_path: Path) -> None:
    write_comparison(comparison(), tmp_path, "csot compare <data>")
    names = {path.name for path in tmp_path.iterdir()}
    pictures = {"test_accuracy.png", "clean_accuracy.png"}
    assert names == {"cells.csv", "table.csv", "table.tex", "compare.html"} | pictures
    page = (tmp_path / "compare.html").read_text(encoding="utf-8")
    assert '<span class="word">&lt;data&gt;</span>' in page
    assert "data:image" not in page
    assert page.count("<svg") == 4, "two curves, two noises"
    assert page.count('<polygon points="') == 6, "the range over the seeds"
    assert page.index('data-pick="csot"') < page.index('data-pick="cross_entropy"'), "as printed"
    assert page.count('data-method="csot" class="on"') == 6
    assert len(pd.read_csv(tmp_path / "table.csv")) == 4


def test_the_page_links_each_run(tmp_path: Path) -> None:
    found = comparison(seeds=1)
    places = {key: tmp_path / "out" / "runs" / f"{key[0]} {key[1]}" for key in found.histories}
    for number, place in enumerate(places.values()):
        place.mkdir(parents=True)
        if number == 0:
            (place / "report.html").write_text("")
    out = tmp_path / "out"
    write_comparison(Comparison(found.cells, found.histories, places), out, "csot compare")
    page = (out / "compare.html").read_text(encoding="utf-8")
    assert '<a href="runs/cross_entropy%20sym%3A0.5/report.html"' in page
    assert '<a href="runs/csot%20sym%3A0.5"' in page


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (81.3, 81.4), (50.0, 50.0), (0.1, 99.9)])
def test_ticks_cover_the_range(low: float, high: float) -> None:
    ticks = nice_ticks(low, high)
    assert 2 <= len(ticks) <= 8
    assert ticks[0] <= low
    assert ticks[-1] >= high
    inside = nice_ticks(1, 300, whole=True, inside=True)
    assert all(1 <= tick <= 300 and tick == int(tick) for tick in inside)


def test_a_method_keeps_its_colour() -> None:
    histories = comparison().histories
    first = draw_curves(histories, "test_accuracy", "")
    second = draw_curves(histories, "clean_accuracy", "")
    assert first is not None
    assert second is not None
    colours = [
        {line.get_label(): line.get_color() for line in figure.axes[0].get_lines()}
        for figure in (first, second)
    ]
    assert colours[0]["csot"] == colours[1]["csot"]
    assert draw_curves(histories, "corrected_accuracy", "") is None


def test_of_many_methods_the_best_and_csot_have_colours() -> None:
    histories = {}
    for number in range(10):
        name = "csot" if number == 9 else f"method_{number}"
        frame = pd.DataFrame({"epoch": [1, 2], "test_accuracy": [0.5, 0.9 - 0.01 * number]})
        histories[name, "none", 0] = frame
    figure = draw_curves(histories, "test_accuracy", "")
    assert figure is not None
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == [*(f"method_{number}" for number in range(5)), "csot", "4 others"]


def test_a_run_is_drawn_from_its_metrics(tmp_path: Path) -> None:
    frame = pd.DataFrame({"epoch": [1, 2], "loss": [2.0, 1.0], "test_accuracy": [0.5, math.nan]})
    frame.to_csv(tmp_path / "metrics.csv", index=False)
    assert write_history(tmp_path).stat().st_size > 1000
    titles = [axis.get_title() for axis in draw_history(frame).axes]
    assert titles == ["Losses", "Accuracy, per cent"]
    frame["test_accuracy_other"] = frame["test_top5_other"] = [0.4, 0.5]
    axis = draw_history(frame).axes[1]
    assert [line.get_label() for line in axis.get_lines()] == ["test", "other", "other, top 5"]
