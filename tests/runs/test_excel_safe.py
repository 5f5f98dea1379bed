"""Formulas are disarmed on request, and reading gives back what was written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from csot.cli.app import app
from csot.runs import Run, tables
from csot.runs.excel_safe import restored_cell, safe_cell
from csot.runs.tables import read_text_csv, write_csv

RISKY = ("=", "+", "-", "@", "\t", "\r", "\n")


@given(st.text(alphabet="'=+-@\t\r1.e a", max_size=8))
def test_cells(cell: str) -> None:
    safe = safe_cell(cell)
    assert restored_cell(safe) == cell
    if safe.startswith(RISKY):
        float(safe)  # only a plain number may look like that


@pytest.mark.parametrize("cell", ["-1", "+3.5", "-2e-5", "plain", "", "'quoted", "7"])
def test_what_is_harmless_stays(cell: str) -> None:
    assert safe_cell(cell) == cell
    assert restored_cell(cell) == cell


def test_tables(tmp_path: Path) -> None:
    frame = pd.DataFrame({"=name": ["=cmd|' /C calc'!A0", "'=x", "-1", None], "n": [1, -2, 3, 4]})
    write_csv(tmp_path / "t.csv", frame, excel_safe=True)
    text = (tmp_path / "t.csv").read_text()
    assert text.splitlines()[:2] == ["'=name,n", "'=cmd|' /C calc'!A0,1"]
    again = read_text_csv(tmp_path / "t.csv", excel_safe=True)
    assert again["=name"].tolist() == ["=cmd|' /C calc'!A0", "'=x", "-1", ""]
    write_csv(tmp_path / "t.csv", frame)
    assert (tmp_path / "t.csv").read_text().splitlines()[1].startswith("=cmd")


def test_columns_that_would_get_one_name_keep_two(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("'=x,=x,''=x\n1,2,3\n")
    again = read_text_csv(tmp_path / "t.csv", excel_safe=True)
    assert again.columns.is_unique
    assert again.to_numpy().tolist() == [["1", "2", "3"]]


@pytest.mark.parametrize("small", [0, 1 << 20])
def test_some_columns_of_a_table(
    tmp_path: Path, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small file and a large one are read in two ways."""
    monkeypatch.setattr(tables, "SMALL", small)
    frame = pd.DataFrame([["1", "2", "3", "4"]], columns=["=a", "b", "c", "=d"])
    write_csv(tmp_path / "t.csv", frame, excel_safe=True)
    for always, found in (("=d", ["=a", "=d"]), ("=a", ["=a"]), (None, ["=a"])):
        some = read_text_csv(
            tmp_path / "t.csv", columns=1, always=lambda _, name=always: name, excel_safe=True
        )
        assert some.columns.tolist() == found
        assert some["=a"].tolist() == ["1"]


@pytest.mark.parametrize("safe", [True, False])
def test_the_command(tmp_path: Path, safe: bool) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 60)
    frame = pd.DataFrame(rng.normal(size=(60, 3)) + 3 * labels[:, None], columns=["a", "b", "c"])
    frame["kind"] = np.where(labels == 0, "=cmd()", "@plain")
    frame.to_csv(tmp_path / "t.csv", index=False)
    arguments = ["clean", str(tmp_path / "t.csv"), "--label", "kind"]
    arguments += ["--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, [*arguments, *(["--excel-safe"] if safe else [])])
    assert result.exit_code == 0, result.output
    run = Run.open(tmp_path / "run")
    assert run.excel_safe is safe
    for name in ("findings.csv", "corrected.csv"):
        text = (run.path / name).read_text()
        assert ("'=cmd()" in text) is safe
        assert (",=cmd()" in text) is not safe
    assert set(run.read_findings()["given_label"]) == {"=cmd()", "@plain"}
    assert ("--excel-safe" in run.read_summary()["settings"]["command"]) is safe
    session_names = _review_names(run)
    assert session_names == {"=cmd()", "@plain"}


def _review_names(run: Run) -> set[str]:
    from csot.review.domain.session import Session
    from csot.runs.source import read_own_table

    session = Session(run, "ana")
    try:
        own = read_own_table(session.catalogue.run, session.catalogue.ids)
        assert own is not None
        assert set(own["kind"]) == {"=cmd()", "@plain"}
        return set(session.catalogue.names)
    finally:
        session.close()


def test_the_flag_is_taken_back(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    assert not run.excel_safe
    run.write_excel_safe(False)
    before = os.stat(run.path / "run.json").st_mtime_ns
    run.write_excel_safe(True)
    assert run.excel_safe
    run.write_excel_safe(False)
    assert not run.excel_safe
    assert before
