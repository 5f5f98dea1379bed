"""`csot figures`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from csot.figures.catalogue import FIGURES
from figures.made_runs import NAMES, TRUE, made_run
from training.quick import command, fails


def test_every_figure_is_listed() -> None:
    result = command("figures", "list")
    assert result.exit_code == 0, result.output
    assert all(name in result.stdout for name in FIGURES)


def test_files_of_one_figure(tmp_path: Path) -> None:
    result = command("figures", "overview", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    names = {path.name for path in (tmp_path / "out").iterdir()}
    pictures = {f"overview{dark}.{kind}" for dark in ("", "-dark") for kind in ("png", "svg")}
    tables = {f"overview-{part}.csv" for part in ("samples", "centroids", "shares")}
    assert names == pictures | tables
    assert "overview-shares.csv" in result.stdout


def test_unknown_names(tmp_path: Path) -> None:
    assert "did you mean 'mappings'?" in fails("figures", "maping", "--out", tmp_path)
    assert "--theme must be light" in fails("figures", "overview", "--theme", "red")
    nowhere = tmp_path / "nowhere"
    assert "nowhere is not a finished run" in fails("figures", "mappings", nowhere)
    assert list(tmp_path.iterdir()) == []


def test_of_a_training_run(digits_run: Path, tmp_path: Path) -> None:
    result = command(
        "figures", "couplings", digits_run, "--epoch", "2", "--out", tmp_path, "--theme", "light"
    )
    assert result.exit_code == 0, result.output
    rows = pd.read_csv(tmp_path / "couplings-rows.csv")
    assert rows["sample"].nunique() == 180
    assert "it has [1, 2, 3, 4]" in fails(
        "figures", "couplings", digits_run, "--epoch", "9", "--out", tmp_path
    )


def test_all_that_a_run_allows(tmp_path: Path) -> None:
    made_run(tmp_path / "run", truth=False)
    truth = pd.DataFrame(
        {"id": [f"row {row}" for row in range(10)], "true_label": [NAMES[k] for k in TRUE]}
    )
    truth.to_csv(tmp_path / "truth.csv", index=False)
    result = command(
        *("figures", "all", tmp_path / "run", "--out", tmp_path / "out", "--theme", "dark"),
        *("--truth", tmp_path / "truth.csv"),
    )
    assert result.exit_code == 0, result.output
    drawn = {path.stem for path in (tmp_path / "out").glob("*.svg")}
    names = ("confusion", "precision-recall", "reliability", "noise-matrix", "suspects")
    assert drawn == {f"{name}-dark" for name in names}
    assert "curves is left out: none of these folders is a training run" in result.stderr
    assert "true labels: give them as --truth" in fails(
        "figures", "confusion", tmp_path / "run", "--out", tmp_path / "out"
    )
