"""`csot compare` and `csot ablations`, as a user runs them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from csot.cli.app import app
from csot.training.presets import make_config
from csot.training.run_folder import RunFolder
from training.quick import command, write_table

SHORT = ["--set", "epochs=2", "--set", "csot.warmup=1", "--set", "csot.supervised_epochs=2"]
SMALL = ["--set", "training.network={name: mlp, width: 16}", "--set", "dataset.limit=200"]


def compare(out: Path, *more: str) -> tuple[int, str]:
    arguments = ["compare", "digits", "--out", str(out), *SHORT, *SMALL, *more]
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.output


def test_cells_tables_and_curves(tmp_path: Path) -> None:
    code, output = compare(
        tmp_path, "--methods", "cross_entropy,csot@c", "--noise", "sym:0.5", "--seeds", "0,1"
    )
    assert code == 0, output
    assert output.count(" seed ") == 4
    assert "4 runs; each method uses its own recipe" in " ".join(output.split())
    assert "peak: the highest of all epochs, which papers call best" in output
    table = pd.read_csv(tmp_path / "table.csv")
    assert list(table["method"]) == ["cross_entropy", "csot@c"]
    assert list(table["seeds"]) == [2, 2]
    ablation = tmp_path / "cells" / "csot@c" / "sym-0.5" / "seed-1"
    settings = json.loads((ablation / "summary.json").read_text())["settings"]["settings"]
    assert settings["coherence"] == 0
    assert {"findings.csv", "report.html"} <= {p.name for p in ablation.iterdir()}
    assert (tmp_path / "compare.html").exists()


def test_a_table_starts_as_for_train(tmp_path: Path) -> None:
    """The preset has no section for methods other than CSOT: they take its common part."""
    table = write_table(tmp_path / "t.csv")
    columns = ["--label", "y", "--id", "id", "--features", "a,b,c,d,e"]
    settings = ["--set", "epochs=2", "--set", "network.width=8", "--set", "dividemix.warmup=1"]
    done = command(
        *("compare", table, "--methods", "cross_entropy,dividemix,csot", *columns, *settings),
        *("--out", tmp_path / "all", "--set", "csot.warmup=1", "--set", "csot.supervised_epochs=2"),
    )
    assert done.exit_code == 0, done.output
    configs = [RunFolder(place.parent).read_config() for place in tmp_path.rglob("summary.json")]
    assert {config.method for config in configs} == {"cross_entropy", "dividemix", "csot"}
    trained = make_config(str(table), "csot", preset="tables", overrides={"epochs": 2})
    for config in configs:
        assert config.preset == "tables"
        assert config.training.network.name == "mlp"
        assert config.training.optimiser == trained.training.optimiser


def test_only_what_is_missing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the results have the name of the data set."""
    monkeypatch.chdir(tmp_path)
    out, wanted = Path("digits"), ("--methods", "cross_entropy", "--equal")
    assert compare(out, *wanted, "--noise", "sym:0.50", "--seeds", "0")[0] == 0
    kept = out / "cells" / "cross_entropy" / "sym-0.5" / "seed-0" / "metrics.csv"
    written = kept.stat().st_mtime_ns
    code, output = compare(out, *wanted, "--noise", "sym:.5,sym:0.5", "--seeds", "0,1")
    assert code == 0, output
    assert "--equal: every method has the preset's common epochs" in " ".join(output.split())
    assert kept.stat().st_mtime_ns == written
    assert len(pd.read_csv(out / "cells.csv")) == 2
    page = re.sub("</?span[^>]*>", "", (out / "compare.html").read_text(encoding="utf-8"))
    again = "--noise sym:.5,sym:0.5 --seeds 0,1 --set epochs=2"
    assert f"csot compare digits --methods cross_entropy --out {out} {again}" in page


def test_a_sweep_goes_on_and_is_tabled(tmp_path: Path) -> None:
    wanted = ("--methods", "csot,cross_entropy", "--noise", "sym:0.5")
    assert compare(tmp_path, *wanted, "--vary", "csot.epsilon=0.1")[0] == 0
    code, output = compare(tmp_path, *wanted, "--vary", "csot.epsilon=0.1,5e-2")
    assert code == 0, output
    sweep = pd.read_csv(tmp_path / "sweep.csv")
    assert sweep["value"].tolist() == [0.05, 0.1]
    assert sweep["setting"].tolist() == ["epsilon"] * 2
    table = pd.read_csv(tmp_path / "table.csv").set_index("method")
    assert list(table.index) == ["csot epsilon=0.1", "csot epsilon=0.05", "cross_entropy"]
    assert sweep["last_mean"][0] == table["last_mean"]["csot epsilon=0.05"]
    place = tmp_path / "cells" / "csot+epsilon=0.05" / "sym-0.5" / "seed-0" / "summary.json"
    assert json.loads(place.read_text())["settings"]["settings"]["epsilon"] == 0.05
    assert "csot, last test accuracy over epsilon" in output
    assert (tmp_path / "sweep.png").exists()
    done = CliRunner().invoke(app, ["table", "main", str(tmp_path), "--with-paper"])
    assert done.exit_code == 0
    assert "csot epsilon=0.05" in done.stdout
    assert "the paper has no figures for these columns" in done.stdout


def test_two_at_a_time_give_the_same(tmp_path: Path) -> None:
    wanted = ("--methods", "cross_entropy", "--noise", "sym:0.5", "--seeds", "0,1")
    for jobs in ("1", "2"):
        code, output = compare(tmp_path / jobs, *wanted, "--jobs", jobs)
        assert code == 0, output
    one, two = (pd.read_csv(tmp_path / jobs / "cells.csv") for jobs in ("1", "2"))
    same = ["method", "noise", "seed", "last"]
    pd.testing.assert_frame_equal(one[same], two[same], atol=1e-6)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (("--methods", "crossentropy"), "cross_entropy"),
        (("--methods", "csot@z"), "no ablation 'z'"),
        (("--methods", ","), "--methods"),
        (("--methods", "csot", "--seeds", "one"), "--seeds"),
        (("--methods", "elr@a"), "only csot has ablations"),
        (("--methods", "csot", "--noise", "symm:0.5"), "did you mean 'sym'"),
        (("--methods", "csot", "--vary", "epsilon"), "--vary epsilon: write KEY=V1,V2"),
        (("--methods", "csot", "--vary", "elr.weight=1,2"), "--vary elr.weight: elr is not"),
        (("--methods", "csot", "--vary", "epsilom=1,2"), "did you mean"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, more: tuple[str, ...], expected: str) -> None:
    code, output = compare(tmp_path, *more)
    assert code == 2
    assert expected in " ".join(output.split())


def test_a_cell_with_other_settings_is_not_mixed_in(tmp_path: Path) -> None:
    wanted = ("--methods", "cross_entropy", "--noise", "none")
    assert compare(tmp_path, *wanted)[0] == 0
    code, output = compare(tmp_path, *wanted, "--set", "learning_rate=0.2")
    assert code == 2
    assert "other settings" in " ".join(output.split())


def test_the_table_of_the_paper_as_a_file(tmp_path: Path) -> None:
    out = tmp_path / "table.tex"
    wanted = ["table", "clothing1m", "--with-paper", "--format", "latex", "--out", str(out)]
    assert CliRunner().invoke(app, wanted).exit_code == 0
    assert r"\textsl{75.16}" in out.read_text()
    out.write_text("mine")
    done = CliRunner().invoke(app, wanted)
    assert done.exit_code == 2
    assert "exists: --force replaces it" in " ".join(done.output.split())
    assert out.read_text() == "mine"
    assert CliRunner().invoke(app, [*wanted, "--force"]).exit_code == 0
    assert out.read_text() != "mine"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("main",), "give folders of runs, or --with-paper"),
        (("main", "--with-paper", "--format", "pdf"), "--format 'pdf' is not one of"),
        (("mian", "--with-paper"), "there are main"),
    ],
)
def test_what_is_wrong_with_a_table(arguments: tuple[str, ...], expected: str) -> None:
    done = CliRunner().invoke(app, ["table", *arguments])
    assert done.exit_code == 2
    assert expected in " ".join(done.output.split())


def test_ablations_are_listed() -> None:
    done = CliRunner().invoke(app, ["ablations"])
    assert done.exit_code == 0
    assert "classical OT" in done.output
