"""`csot figures`."""

from __future__ import annotations

from pathlib import Path

from csot.figures.catalogue import FIGURES
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
    assert "nowhere has no snapshots" in fails("figures", "mappings", tmp_path / "nowhere")
    assert not (tmp_path / "figures").exists()
