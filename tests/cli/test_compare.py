"""`csot compare` and `csot ablations`, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from csot.cli.app import app

SHORT = ["--set", "epochs=2", "--set", "csot.warmup=1", "--set", "csot.supervised_epochs=2"]
SMALL = ["--set", "training.network={name: mlp, width: 16}", "--set", "dataset.limit=200"]


def compare(out: Path, *more: str) -> tuple[int, str]:
    arguments = ["compare", "digits", "--out", str(out), *SHORT, *SMALL, *more]
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.output


def test_cells_tables_and_curves(tmp_path: Path) -> None:
    code, output = compare(
        tmp_path, "--methods", "cross_entropy,csot,csot@c", "--noise", "sym:0.5", "--seeds", "0,1"
    )
    assert code == 0, output
    assert output.count("seed") == 6
    table = pd.read_csv(tmp_path / "table.csv")
    assert list(table["method"]) == ["cross_entropy", "csot", "csot@c"]
    assert list(table["seeds"]) == [2, 2, 2]
    ablation = tmp_path / "cells" / "csot@c" / "sym-0.5" / "seed-1"
    settings = json.loads((ablation / "summary.json").read_text())["settings"]["settings"]
    assert settings["coherence"] == 0
    assert (ablation / "findings.csv").exists()
    assert (tmp_path / "compare.html").exists()


def test_only_what_is_missing_is_run(tmp_path: Path) -> None:
    wanted = ("--methods", "cross_entropy", "--noise", "none")
    assert compare(tmp_path, *wanted, "--seeds", "0")[0] == 0
    kept = tmp_path / "cells" / "cross_entropy" / "none" / "seed-0" / "metrics.csv"
    written = kept.stat().st_mtime_ns
    assert compare(tmp_path, *wanted, "--seeds", "0,1")[0] == 0
    assert kept.stat().st_mtime_ns == written
    assert len(pd.read_csv(tmp_path / "cells.csv")) == 2


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


def test_ablations_are_listed() -> None:
    done = CliRunner().invoke(app, ["ablations"])
    assert done.exit_code == 0
    assert "classical OT" in done.output
