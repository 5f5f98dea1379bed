"""Tables and curves of a comparison, from records written by hand."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pandas as pd
import pytest

from browsers import CHROMIUM, NO_BROWSER, running_chromium
from csot.figures.comparison.comparison import Comparison, best_last, latex, rows_for
from csot.figures.comparison.comparison_files import draw_curves, write_comparison
from csot.figures.comparison.page import draw_panels, nice_ticks, selection_starts
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


def page_of(found: Comparison, out: Path) -> str:
    out.mkdir(exist_ok=True)
    write_comparison(found, out, "csot compare")
    return (out / "compare.html").read_text(encoding="utf-8")


def test_one_seed_reads_naturally(tmp_path: Path) -> None:
    one, two = (page_of(comparison(seeds), tmp_path / str(seeds)) for seeds in (1, 2))
    assert "of one run each (seed 0)" in one
    assert "deviation" not in one
    assert "mean ± standard deviation over the seeds 0, 1" in two
    assert "one run each" not in two


def test_axes_have_names(tmp_path: Path) -> None:
    page = page_of(comparison(), tmp_path)
    for name in ("test accuracy in %", "clean accuracy in %", "epoch"):
        assert page.count(f">{name}</text>") == (4 if name == "epoch" else 2)


def test_a_method_without_a_curve_is_named_in_the_chart(tmp_path: Path) -> None:
    found = comparison()
    (panel, _) = draw_panels(found.histories, "clean_accuracy")
    assert panel.absent == ["cross_entropy"]
    assert draw_panels(found.histories, "test_accuracy")[0].absent == []
    page = page_of(found, tmp_path)
    assert page.count('<p class="absent" data-method="cross_entropy">') == 2
    assert "cross_entropy records no clean accuracy" in page


def test_the_page_says_from_which_epoch_labels_are_selected(tmp_path: Path) -> None:
    found = comparison()
    assert selection_starts(found.histories) == {2: ["csot"]}
    assert "csot selects from epoch 2." in page_of(found, tmp_path)
    at_once = {key: frame.bfill() for key, frame in found.histories.items()}
    assert selection_starts(at_once) == {}
    (late, _) = draw_panels(found.histories, "clean_accuracy")
    (whole, _) = draw_panels(found.histories, "test_accuracy")
    assert late.x_ticks == whole.x_ticks, "a late curve is seen to begin late"


def test_a_curve_of_one_epoch_is_a_dot() -> None:
    frame = pd.DataFrame({"epoch": [1, 2], "test_accuracy": [0.5, 0.6], "clean_recall": [None, 1]})
    (panel,) = draw_panels({("csot", "none", 0): frame}, "clean_recall")
    first, second = panel.curves[0].line.split()
    assert first == second


@pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    methods = {"cross_entropy": 0.8, "csot": 0.9}
    write_comparison(
        Comparison.read(write_cells(tmp_path, methods, ["sym:0.5"], range(3))), tmp_path, "csot"
    )
    with running_chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme="light")
        page.goto((tmp_path / "compare.html").as_uri())
        charts = page.locator(".plot svg")
        assert charts.count() == 3
        boxes = [charts.nth(number).bounding_box() for number in range(2)]
        assert boxes[0]["y"] == boxes[1]["y"], "two in a row"
        text = "text => text.getBoundingClientRect().height"
        assert charts.first.locator("text").first.evaluate(text) < 20, "no larger than the headings"
        assert page.locator(".absent:visible").count() == 0
        page.locator(".legend [data-pick=cross_entropy]").click()
        assert page.locator(".absent:visible").count() == 2
        page.click("#theme")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.locator(".cue:visible").count() == 0
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_selector(".cue:visible")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator(".scroll.more").count() == 1
        page.locator(".scroll").evaluate("box => box.scrollTo(box.scrollWidth, 0)")
        page.wait_for_function("!document.querySelector('.scroll.more')")
        box = page.locator("td a").last.bounding_box()
        assert box["x"] + box["width"] <= 390, "the links are in reach"


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
