"""What used to be a traceback is one line that names the file; what is printed is harmless."""

from __future__ import annotations

import io
import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text
from safetensors.torch import save_file
from typer.testing import CliRunner

from csot._core.errors import FileError, naming, reason
from csot._core.text import breakable, one_line, printable
from csot.cli.app import app
from csot.cli.terminal import Printable, Terminal
from csot.data import Columns, DataError, read_data
from csot.nets.weights import read_safetensors
from csot.report import write_report
from csot.review.domain.session import Session
from csot.runs import Run
from csot.training.checkpoint import Checkpoint, Checkpoints
from csot.training.run_folder import RunFolder
from fuzz.targets import make_npz, make_trained, read_trained
from report.sample_runs import rows_run


def test_names_break_after_separators_and_numbers_do_not() -> None:
    assert breakable("a_b/c.d-e") == "a_<wbr>b/<wbr>c.<wbr>d-<wbr>e"
    assert breakable("13.11%, top 5 1,234.5") == "13.11%, top 5 1,234.5"
    assert breakable("photo.0 <b>") == "photo.<wbr>0 &lt;b&gt;"


def fails(*arguments: str | Path) -> str:
    """The one line on standard error."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return lines[0]


def npy(descr: str, shape: str) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)


@pytest.mark.parametrize(
    "content",
    [
        npy("'<f8'", "(10**9, 10**9)"),
        npy("'<f8'", "(1000000000000, 4)"),
        npy("'<f8'", "(((("),
        npy("'<f8", "(2,)"),
        npy("'|O'", "(2,)"),
        npy("'<U0'", "(-1,)"),
        npy("[('a', '<f4')]", "(2,)"),
        b"\x93NUMPY\x09\x00",
        b"",
    ],
)
@pytest.mark.parametrize("form", ["npz", "folder"])
def test_arrays(tmp_path: Path, content: bytes, form: str) -> None:
    if form == "npz":
        with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
            archive.writestr("features.npy", content)
            archive.writestr("labels.npy", npy("'<i8'", "(2,)"))
        assert "d.npz: features" in fails("clean", tmp_path / "d.npz", "--out", tmp_path / "run")
        return
    data = tmp_path / "data"
    data.mkdir()
    np.save(data / "labels.npy", np.arange(2))
    (data / "features.npy").write_bytes(content)
    assert "features" in fails("clean", data, "--out", tmp_path / "run")


def test_members_of_an_archive(tmp_path: Path) -> None:
    make_npz(tmp_path)
    whole = (tmp_path / "d.npz").read_bytes()
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive,
        zipfile.ZipFile(io.BytesIO(whole)) as plain,
    ):
        for name in plain.namelist():
            archive.writestr(name, plain.read(name))
    content = packed.getvalue()
    central = content.index(b"PK\x01\x02")
    encrypted, method, body = bytearray(content), bytearray(content), bytearray(content)
    encrypted[central + 8] |= 1
    method[central + 10] = 99
    body[60:90] = b"\xff" * 30
    for name, damaged in (("encrypted", encrypted), ("another way", method), ("features", body)):
        (tmp_path / "d.npz").write_bytes(bytes(damaged))
        with pytest.raises(DataError, match=rf"d\.npz.*{name}"):
            read_data(tmp_path / "d.npz")


def test_parquet_metadata(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"label": ["a", "b", "a"], "x": [1.0, 2.0, 3.0]})
    for held in (b"{}", b"[", b'{"index_columns": ["no"], "columns": []}'):
        parquet.write_table(
            table.replace_schema_metadata({b"pandas": held}), tmp_path / "t.parquet"
        )
        with pytest.raises(DataError, match=r"t\.parquet is not a readable Parquet file"):
            read_data(tmp_path / "t.parquet", Columns(label="label"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("run.json", text) for text in ("[]", "3", "null", "{", '{"format": []}', "[" * 9999)),
        ("run.json", '{"format": 1, "id_kind": "x", "label_kind": "text"}'),
        *(("summary.json", text) for text in ("[]", "{}", '{"n_rows": 1, "class_names": null}')),
        ("summary.json", '{"n_rows": 1, "class_names": [[]]}'),
        ("summary.json", '{"n_rows": 1, "class_names": ["a"], "noise_matrix": [["a"]]}'),
        ("summary.json", '{"n_rows": 1, "class_names": ["a"], "skipped": [1]}'),
        ("summary.json", '{"n_rows": 1, "class_names": ["a"], "noise_rate": "high"}'),
        ("summary.json", '{"n_rows": NaN, "class_names": ["a"]}'),
        ("findings.csv", ""),
        ("findings.csv", "id,x\n1,2\n"),
        ("samples.csv", "id,image\n1,a\n1,b\n"),
        ("probabilities.npy", "nothing"),
    ],
)
def test_run_folders(tmp_path: Path, name: str, content: str) -> None:
    run = rows_run(tmp_path, 50, 3)
    (run.path / name).write_text(content)
    command = "review" if name == "probabilities.npy" else "report"
    assert str(run.path) in fails(command, run.path)


def test_an_id_that_is_there_twice(tmp_path: Path) -> None:
    run = rows_run(tmp_path, 50, 3)
    lines = (run.path / "findings.csv").read_text().splitlines()
    (run.path / "findings.csv").write_text("\n".join([*lines, lines[1]]) + "\n")
    assert "findings.csv has the id" in fails("report", run.path)


def test_a_map_beyond_the_file(tmp_path: Path) -> None:
    run = rows_run(tmp_path, 50, 3)
    path = run.path / "probabilities.npy"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(FileError, match=r"probabilities\.npy is not a readable \.npy array"):
        run.read_probabilities()


@pytest.mark.parametrize("form", ["text", "pages", "trigger", "types", "time"])
def test_a_malformed_record_of_decisions(tmp_path: Path, form: str) -> None:
    run = rows_run(tmp_path, 50, 3)
    session = Session(run, "ana")
    session.decide([1], "unsure", None, "one", "batch-0001")
    session.close()
    path = run.path / "decisions.sqlite"
    if form == "text":
        path.write_text("not a database, but long enough to be one" * 99)
    elif form == "pages":
        content = bytearray(path.read_bytes())
        content[4096:4196] = b"\xff" * 100
        path.write_bytes(bytes(content))
    else:
        base = sqlite3.connect(path)
        base.execute("PRAGMA ignore_check_constraints=ON")
        base.execute(
            {
                "trigger": "CREATE TRIGGER t AFTER INSERT ON decision BEGIN DELETE FROM meta; END",
                "types": "UPDATE decision SET label = x'ff'",
                "time": "UPDATE decision SET time = 'yesterday'",
            }[form]
        )
        base.commit()
        base.close()
    assert "decisions.sqlite" in fails("review", run.path)


def test_checkpoints(tmp_path: Path) -> None:
    import torch

    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(Checkpoint(1, {"a": torch.ones(2)}, {"history": []}), best=True)
    place = tmp_path / "epoch-1"
    for content in (b"", b"PK\x03\x04", b"\x80\x02}.", b"text"):
        whole = (place / "state.pt").read_bytes()
        (place / "state.pt").write_bytes(content)
        with pytest.raises(FileError, match=r"state\.pt"):
            checkpoints.load()
        (place / "state.pt").write_bytes(whole)
    for text in ("[]", "{}", '{"epoch": "1"}', '{"epoch": -1}', "[" * 2000):
        (tmp_path / "last.json").write_text(text)
        with pytest.raises(FileError, match=r"last\.json"):
            checkpoints.load()


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    """Of a run that somebody else trained: the message says which."""
    make_trained(tmp_path)
    path = tmp_path / "run" / "checkpoints" / "epoch-1" / "model.safetensors"
    tensors = read_safetensors(path)
    save_file({name: value.float() * float("nan") for name, value in tensors.items()}, path)
    with pytest.raises((ValueError, FloatingPointError), match=rf"{tmp_path}.*not finite"):
        read_trained(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["[", "- a", "a: &a [*a]", "kind: images\nshape: [1]", "? [" * 99, "rows: 99999999999", "\x00"],
)
def test_configurations_of_runs(tmp_path: Path, text: str) -> None:
    for name, read in (
        ("config.yaml", RunFolder(tmp_path).read_config),
        ("inputs.yaml", RunFolder(tmp_path).read_inputs),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=name):
            read()


def test_messages_are_short_and_leave_the_path_out() -> None:
    assert reason(KeyError("a")) == "no 'a'"
    assert reason(MemoryError()) == "it needs more memory than there is"
    assert len(reason(ValueError("x" * 10**6))) == 300
    assert reason(ValueError("bad\n  /a/b/c.txt"), "/a/b/c.txt") == "bad c.txt"
    with pytest.raises(ModuleNotFoundError), naming("x", "a thing"):
        raise ModuleNotFoundError("no module")


EVIL = "\x1b[2J\x1b]0;owned\x07cat\x9b31m\x7f\r\u202edog\ud800"


def test_control_characters_are_not_printed() -> None:
    clean = printable(EVIL)
    assert "cat" in clean
    assert not any(character in clean for character in "\x1b\x07\x9b\x7f\r\u202e\ud800")
    assert printable("a\tb\né 語 👩\u200d🚀") == "a\tb\né 語 👩\u200d🚀"
    assert one_line("a\n\x1b b") == "a \ufffd b"


@pytest.mark.parametrize("wrap", [str, Text, lambda text: _in_a_table(text)])
def test_whatever_is_drawn_is_harmless(wrap: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    terminal = Terminal()
    monkeypatch.setattr(terminal, "_out", Console(file=out, force_terminal=True, width=200))
    terminal.say(wrap(f"{EVIL} [red]name[/red]"))
    text = out.getvalue()
    assert "[red]name[/red]" in text, "markup in a name is part of the name"
    assert "\x1b]0" not in text
    assert "\x1b[2J" not in text
    assert "\x9b" not in text


def _in_a_table(text: str) -> Table:
    table = Table("name", box=None)
    table.add_row(Text(text))
    return table


def test_errors_and_warnings_are_one_harmless_line(tmp_path: Path) -> None:
    place = tmp_path / "a\x1b[31mb\nc.csv"
    place.write_text("label,x\n")
    line = fails("clean", place, "--label", "label", "--out", tmp_path / "run")
    assert "\x1b" not in line
    assert "c.csv" in line


def test_printable_keeps_its_width() -> None:
    console = Console(width=50, file=io.StringIO())
    measured = console.measure(Printable(_in_a_table("abc")))
    assert measured.maximum == console.measure(_in_a_table("abc")).maximum


def test_a_preset_is_shown_without_escapes(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("about: '\x1b[2J'\n")
    result = CliRunner().invoke(app, ["presets", "show", str(tmp_path / "p.yaml")])
    assert "\x1b" not in result.stdout


def test_pages_of_a_damaged_run_say_why(tmp_path: Path) -> None:
    from fuzz.targets import Asked

    run = rows_run(tmp_path, 50, 3)
    (run.path / "samples.csv").write_text('id,text\n"1')
    asked = Asked(Run.open(run.path))
    try:
        asked.session.samples.load_early()
        status, content = asked.ask("GET", "/one")
        assert status == 400
        assert b"samples.csv" in content
    finally:
        asked.session.close()


def test_a_summary_written_by_us_is_read(tmp_path: Path) -> None:
    run = rows_run(tmp_path, 50, 3)
    summary = json.loads((run.path / "summary.json").read_text())
    assert run.read_summary() == summary
    assert write_report(run).exists()
    assert isinstance(run.read_findings(), pd.DataFrame)
