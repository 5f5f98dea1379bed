"""The numbers behind the figures of training runs, against what the runs were written with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from csot.figures import curves, epoch_time, sensitivity, stages, total_time
from csot.figures.records import find_runs, titles_of, training_records
from figures.made_runs import made_run, training_run


def test_curves_are_means_and_ranges_over_seeds(tmp_path: Path) -> None:
    training_run(tmp_path / "a", seed=0)
    other = {"clean_accuracy": [np.nan, 0.6, 0.7, 0.8]}
    training_run(tmp_path / "b", seed=1, history=other)
    training_run(tmp_path / "c", "nce", history={"clean_recall": [np.nan] * 4})
    table = curves([tmp_path]).data
    mine = table[(table["method"] == "csot") & (table["measure"] == "clean_accuracy")]
    assert mine["epoch"].tolist() == [2, 3, 4]
    assert mine["mean"].tolist() == pytest.approx([70, 80, 90])
    assert mine["low"].tolist() == pytest.approx([60, 70, 80])
    assert mine["high"].tolist() == pytest.approx([80, 90, 100])
    assert set(mine["seeds"]) == {2}
    recalled = table[table["measure"] == "clean_recall"]
    assert set(recalled["method"]) == {"csot"}


def test_a_comparison_is_named_by_its_folders(tmp_path: Path) -> None:
    for name in ("csot@b", "csot", "csot@a", "csot@c", "elr"):
        training_run(tmp_path / "cells" / name / "sym-0.5" / "seed-0", name.partition("@")[0])
    records = training_records([tmp_path])
    assert titles_of(records) == ["elr", "OT", "SOT", "COT", "CSOT"]


def test_runs_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    first = training_run(tmp_path / "first")
    second = training_run(tmp_path / "second")
    found = [record.title for record in training_records([first, second])]
    assert found == ["csot (first)", "csot (second)"]
    assert [run.path for run in find_runs([tmp_path, tmp_path / "first"])] == [
        tmp_path / "first",
        tmp_path / "second",
    ]


def test_stages_in_per_cent_of_the_rows(tmp_path: Path) -> None:
    table = stages([training_run(tmp_path / "run")]).data
    assert table["stage"].tolist() == [0, 1, 1, 2]
    assert table["budget"].tolist()[1:] == [50, 75, 100]
    assert table["selected"].tolist()[1:] == [50, 75, 100]
    assert table["clean"].tolist()[1:] == [37.5, 50, 62.5]


def test_seconds_per_epoch_and_their_share(tmp_path: Path) -> None:
    run = training_run(tmp_path / "run", seconds=20.0)
    drawing = epoch_time([run])
    epochs, means = drawing.tables["epochs"], drawing.tables["means"]
    assert epochs["seconds"].tolist() == pytest.approx([2, 6, 6, 6])
    assert means["seconds"].tolist() == pytest.approx([5])
    assert means["relabel_share"].tolist() == pytest.approx([0.1])


def test_total_time_beside_the_papers(tmp_path: Path) -> None:
    training_run(tmp_path / "a", seconds=10.0)
    training_run(tmp_path / "b", seed=1, seconds=14.0)
    training_run(tmp_path / "c", "elr", seconds=5.0)
    table = total_time([tmp_path]).data.set_index("method")
    assert table.loc["csot", ["runs", "seconds", "seconds_low", "seconds_high"]].tolist() == [
        2,
        12,
        10,
        14,
    ]
    assert table.loc["csot", "hours_paper_A100"] == 4.8
    assert np.isnan(table.loc["elr", "hours_paper_A100"])


def test_sensitivity_reads_the_configuration(tmp_path: Path) -> None:
    for number, (kappa, last) in enumerate([(1.0, 0.9), (10.0, 0.8), (1.0, 0.7)]):
        settings = {"coherence": kappa, "epsilon": 0.1}
        training_run(tmp_path / str(number), seed=number, last=last, settings=settings)
    drawing = sensitivity([tmp_path])
    assert drawing.name == "sensitivity-kappa"
    table = drawing.data.set_index("coherence")
    assert table["runs"].to_dict() == {1.0: 2, 10.0: 1}
    assert table["mean"].to_dict() == pytest.approx({1.0: 80, 10.0: 80})
    assert table["low"].to_dict() == pytest.approx({1.0: 70, 10.0: 80})
    with pytest.raises(ValueError, match="these runs hold 1 values of epsilon"):
        sensitivity([tmp_path], "epsilon")


def test_sensitivity_is_to_one_setting_at_a_time(tmp_path: Path) -> None:
    varied = [(1.0, 0.1, 0.9), (10.0, 0.1, 0.8), (100.0, 0.1, 0.7), (1.0, 0.5, 0.1), (1.0, 0.9, 0)]
    for number, (kappa, epsilon, last) in enumerate(varied):
        settings = {"coherence": kappa, "epsilon": epsilon}
        training_run(tmp_path / str(number), last=last, settings=settings)
    kappas = sensitivity([tmp_path]).data
    assert kappas["mean"].tolist() == pytest.approx([90, 80, 70])
    epsilons = sensitivity([tmp_path], "epsilon").data
    assert epsilons["mean"].tolist() == pytest.approx([90, 10, 0])


def test_every_figure_of_runs_is_drawn(tmp_path: Path) -> None:
    for number, noise in enumerate(("sym:0.5", "sym:0.8")):
        settings = {"coherence": 10.0 * number}
        training_run(tmp_path / f"one {number}", noise=noise, settings=settings)
        training_run(tmp_path / f"two {number}", "elr", noise=noise, seed=1)
    for make in (curves, stages, epoch_time, total_time, sensitivity):
        assert make([tmp_path]).draw("dark").axes


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a finished run, and holds none"):
        curves([tmp_path / "nothing"])
    run = made_run(tmp_path / "cleaned")
    with pytest.raises(ValueError, match=r"none of these folders is a training run"):
        curves([run])
    blank = dict.fromkeys(("clean_accuracy", "corrected_accuracy", "clean_recall"), [np.nan] * 4)
    plain = training_run(tmp_path / "plain", "elr", history={**blank, "budget": [np.nan] * 4})
    with pytest.raises(ValueError, match="no run has measured clean_accuracy or"):
        curves([plain])
    with pytest.raises(ValueError, match="none of these runs has a budget"):
        stages([plain])


def test_one_run_needs_no_list(tmp_path: Path) -> None:
    run = training_run(tmp_path / "run")
    wanted = stages([run]).data
    for given in (run, Path(tmp_path / "run"), str(tmp_path / "run")):
        assert stages(given).data.equals(wanted)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="nowhere is not a finished run"):
        curves("nowhere")
