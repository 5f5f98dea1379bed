"""The paper's tables: what it printed, what was measured, and that the two never meet in a row."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from csot.figures.comparison.comparison import Comparison
from csot.figures.comparison.comparison_files import cells_with_runs
from csot.figures.comparison.measured import read_measured
from csot.figures.comparison.results_table import results_table
from csot.figures.comparison.table_model import (
    MEAN,
    PAPER,
    Column,
    as_csv,
    as_html,
    as_latex,
    as_text,
)
from csot.figures.paper_numbers import paper_table
from figures.made_cells import write_cells, write_run

NOTHING_MEASURED = pd.DataFrame()


# Read off the printed tables by eye.
@pytest.mark.parametrize(
    ("table", "label", "column", "value"),
    [
        ("main", "Cross-Entropy", Column("cifar10", "sym:0.2"), "86.8"),
        ("main", "UniCon", Column("cifar10", "sym:0.9"), "90.8"),
        ("main", "NCE", Column("cifar100", "sym:0.2"), "81.4"),
        ("main", "OT-Filter", Column("cifar10", "asym:0.4:overall"), "95.1"),
        ("main", "CSOT (Best)", Column("cifar100", "sym:0.9"), "50.5 ± 0.46"),
        ("main", "CSOT (Last)", Column("cifar10", "sym:0.9"), "90.5 ± 0.36"),
        ("webvision", "NCE", Column("webvision", "none", "ilsvrc12", "top5"), "94.10"),
        ("webvision", "CSOT", Column("webvision", "none", "webvision", "top1"), "79.67"),
        ("webvision", "MentorNet", Column("webvision", "none", "webvision", "top5"), "81.40"),
        ("clothing1m", "CSOT", Column("clothing1m", "none"), "75.16"),
        ("clothing1m", "Meta-L.", Column("clothing1m", "none"), "73.50"),
        ("ablations", "(h) CSOT w/o L^semi", Column("cifar100", "sym:0.9"), "36.94"),
        ("ablations", "(f) GMM + L^sup", Column("cifar10", "sym:0.9"), "31.76"),
        ("hours", "NCE", Column("cifar10", "", metric="hours"), "6.5"),
    ],
)
def test_what_the_paper_printed(table: str, label: str, column: Column, value: str) -> None:
    made = results_table(table, NOTHING_MEASURED, with_paper=True)
    (row,) = [row for row in made.rows if row.label == label]
    assert row.figures[column].text() == value
    assert row.source == PAPER


def test_the_figures_of_the_ablations_have_the_printed_means() -> None:
    printed = [78.07, 78.65, 80.57, 80.88, 80.93, 62.04, 66.48, 77.80, 79.91, 80.38, 81.85]
    made = results_table("ablations", NOTHING_MEASURED, with_paper=True)
    assert [row.figures[MEAN].value for row in made.rows] == pytest.approx(printed, abs=0.0051)


def test_the_time_of_the_solver() -> None:
    table = paper_table("solver").pivot(index="label", columns="method", values="value")
    assert table.loc["(3000, 3000)"].to_dict() == {"esi": "0.99", "vda": "3.74"}
    assert len(table) == 9
    with pytest.raises(ValueError, match="solver"):
        paper_table("solvers")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A comparison of three methods, on two noises with two seeds."""
    methods = {"dividemix": 0.8, "csot": 0.9, "csot@c": 0.85}
    places = write_cells(tmp_path, methods, ["sym:0.5", "sym:0.8"], range(2))
    cells = cells_with_runs(Comparison.read(places), tmp_path)
    cells.to_csv(tmp_path / "cells.csv", index=False)
    return tmp_path


def test_paper_and_measured_stand_side_by_side_and_apart(runs: Path) -> None:
    made = results_table("main", read_measured([runs]), with_paper=True)
    assert made.columns == [Column("cifar10", "sym:0.5"), Column("cifar10", "sym:0.8")]
    found = [(row.label, row.source, row.epoch) for row in made.rows if row.method == "csot"]
    assert found == [
        ("CSOT (Best)", "paper", "peak"),
        ("CSOT (Last)", "paper", "last"),
        ("csot", "measured", "peak"),
        ("csot", "measured", "last"),
    ]
    for row in made.rows:
        notes = {figure.note for figure in row.figures.values()}
        assert notes == ({""} if row.source == PAPER else {"a"})
    assert made.notes["a"].text() == (
        "1,000 training rows, 20 epochs, resnet8 of width 16, batches of 64; seeds 0, 1; "
        "Abacus, 2 threads"
    )
    tidy = pd.read_csv(StringIO(as_csv(made)), keep_default_na=False)
    ours = tidy[(tidy["method"] == "csot") & (tidy["source"] == "measured")]
    assert ours[ours["epoch"] == "last"]["value"].tolist() == pytest.approx([90.2, 80.2])
    assert ours["deviation"].astype(float).tolist() == pytest.approx([0.2828] * 4, abs=1e-3)
    assert set(tidy[tidy["source"] == "paper"]["scale"]) == {""}


def test_conditions_are_not_averaged(runs: Path, tmp_path: Path) -> None:
    longer = write_run(tmp_path / "longer", epochs=40, seed=2, settings={"epsilon": 0.1})
    sharper = write_run(tmp_path / "sharper", seed=3, settings={"epsilon": 0.05})
    made = results_table("main", read_measured([runs, longer, sharper]), epochs=["last"])
    rows = [row for row in made.rows if row.method == "csot"]
    assert [list(row.figures) for row in rows] == [
        [Column("cifar10", "sym:0.5"), Column("cifar10", "sym:0.8")],
        [Column("cifar10", "sym:0.5")],
        [Column("cifar10", "sym:0.5")],
    ]
    text = as_text(made)
    assert "40 epochs, resnet8 of width 16, batches of 64, epsilon 0.1; seed 2" in text
    assert "epsilon 0.05; seed 3" in text


def test_a_run_counts_once(runs: Path, tmp_path: Path) -> None:
    assert len(read_measured([runs, runs])) == 12
    again = write_run(tmp_path / "again", seed=1)
    with pytest.raises(ValueError, match=r"again are the same run twice .*seed 1\): give one"):
        results_table("main", read_measured([runs, again]))


def test_an_interrupted_comparison_has_what_is_finished(runs: Path) -> None:
    (runs / "cells.csv").unlink()
    (runs / "cells" / "csot@c" / "sym-0.8" / "seed-1" / "summary.json").unlink()
    found = read_measured([runs])
    assert len(found) == 11
    assert set(found["method"]) == {"dividemix", "csot", "csot@c"}


def test_two_test_sets(tmp_path: Path) -> None:
    further = {"ilsvrc12": {"accuracy_last": 0.7, "top5_last": 0.88}}
    folder = write_run(
        tmp_path / "web", data="webvision", noise="none", last=0.75, further_tests=further
    )
    made = results_table("webvision", read_measured([folder]), epochs=["last"], with_paper=True)
    ours = made.rows[-1]
    assert [figure.text() for figure in ours.figures.values()] == [
        "75.00",
        "99.00",
        "70.00",
        "88.00",
    ]
    assert [column.header for column in made.columns][2:] == [
        ("ilsvrc12", "top-1"),
        ("ilsvrc12", "top-5"),
    ]
    chosen = write_run(
        tmp_path / "chosen", data="clothing1m", noise="none", selected_on="clean_val"
    )
    assert "batches of 64, best epoch by clean_val; seed 0" in as_text(
        results_table("clothing1m", read_measured([chosen]), epochs=["best"])
    )
    with pytest.raises(ValueError, match="on clothing1m"):
        results_table("clothing1m", read_measured([folder]))


def test_ablations_have_a_mean_and_hours_are_of_all_noises(runs: Path) -> None:
    made = results_table("ablations", read_measured([runs]), epochs=["last"])
    assert [(row.label, row.figures[MEAN].text()) for row in made.rows] == [
        ("csot", "85.20"),
        ("csot@c", "80.20"),
    ]
    hours = results_table("hours", read_measured([runs]), with_paper=True)
    column = Column("cifar10", "", metric="hours")
    assert {row.label: row.figures[column].text() for row in hours.rows} == {
        "DivideMix": "5.1",
        "dividemix": "0.010 ± 0.00",
        "NCE": "6.5",
        "CSOT": "4.8",
        "csot": "0.010 ± 0.00",
        "csot@c": "0.010 ± 0.00",
    }
    assert "one NVIDIA A100" in as_text(hours)


def test_formats(runs: Path) -> None:
    made = results_table("main", read_measured([runs]), with_paper=True, epochs=["last"])
    text = as_text(made).splitlines()
    assert text[3].split() == ["method", "epoch", "source", "sym:0.5", "sym:0.8"]
    assert "csot           last      measured  90.20 ± 0.28 a  80.20 ± 0.28 a" in text
    latex = as_latex(made)
    assert r"\multicolumn{2}{c}{cifar10}" in latex
    assert r"csot & last & measured & 90.20 $\pm$ 0.28\rlap{$^{a}$}" in latex
    assert r"\textsl{DivideMix} & \textsl{reported} & \textsl{paper} & \textsl{94.6}" in latex
    assert latex.count(r"\\") == 2 + len(made.rows) + len(made.legend()) - 1
    page = as_html(made)
    assert '<tr class="paper"><th scope="row">DivideMix</th>' in page
    assert "90.20 ± 0.28<sup>a</sup>" in page


def test_what_is_wrong_is_said(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are main, webvision"):
        results_table("mian", NOTHING_MEASURED)
    with pytest.raises(ValueError, match="`epochs` holds 'first'"):
        results_table("main", NOTHING_MEASURED, epochs=["first"])
    with pytest.raises(ValueError, match="nothing to show"):
        results_table("main", NOTHING_MEASURED)
    digits = write_run(tmp_path / "digits", data="digits")
    made = results_table("main", read_measured([digits]), with_paper=True)
    assert "the paper has no figures for these columns" in made.legend()
    (runs / "cells.csv").write_text("method\ncsot\n")
    with pytest.raises(ValueError, match="give its command again"):
        read_measured([runs])
