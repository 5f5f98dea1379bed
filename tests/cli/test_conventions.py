"""What every command has: examples that can be typed, --json, --quiet, a default for --out."""

from __future__ import annotations

import errno
import io
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from csot._core.errors import error_words
from csot.cli.app import app
from csot.cli.options import (
    complete_embedder,
    complete_method,
    complete_noise,
    complete_preset,
    default_out,
)
from csot.cli.terminal import ProgressLines, Terminal, as_options
from csot.methods import method_names
from csot.training import preset_names

GROUP: Any = typer.main.get_command(app)


def walk(command: Any, name: str = "csot") -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
    else:
        for key, one in inner.items():
            yield from walk(one, f"{name} {key}")


COMMANDS = dict(walk(GROUP))


def parse(words: list[str]) -> None:
    """As the program would, without running the command."""
    command = GROUP
    while hasattr(command, "commands"):
        words.pop(0)
        command = command.commands[words[0]]
    command.make_context(words[0], words[1:])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command(name: str) -> None:
    command = COMMANDS[name]
    options = {option for one in command.params for option in one.opts}
    assert {"--json", "--quiet", "-q"} <= options
    out = [one for one in command.params if "--out" in one.opts]
    assert not any(one.required for one in out)
    examples = re.findall(r"^ *Example: (.+)$", command.help or "", re.MULTILINE)
    assert examples
    for example in examples:
        parse(shlex.split(example))
    # After the first paragraph typer keeps the line breaks of the source: a line that wraps at 80
    # columns must not be followed by another.
    _, *paragraphs = (command.help or "").split("\n\n")
    assert all(len(line) <= 78 for text in paragraphs for line in text.splitlines()[:-1])


def test_a_reader_that_has_seen_enough_is_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Closed(io.TextIOWrapper):
        def write(self, _text: str) -> int:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    with (tmp_path / "pipe").open("wb") as file, Terminal(as_json=True) as terminal:
        monkeypatch.setattr("sys.stdout", Closed(file))
        with pytest.raises(typer.Exit):
            terminal.result({"n_rows": 1})
        monkeypatch.undo()
    assert "roken pipe" not in capsys.readouterr().err


def test_a_wrong_example_is_found() -> None:
    with pytest.raises(Exception, match="No such option: --outt"):
        parse(["csot", "clean", "photos", "--outt", "run"])


def test_completion_of_the_shell() -> None:
    found = CliRunner().invoke(
        app,
        [],
        prog_name="csot",
        env={"_CSOT_COMPLETE": "complete_bash", "COMP_WORDS": "csot app", "COMP_CWORD": "1"},
    )
    assert "apply" in found.output
    assert complete_method("") == method_names()
    assert complete_preset("cifar10") == [n for n in preset_names() if n.startswith("cifar10")]
    assert complete_embedder("h") == ["hf:"]
    assert complete_noise("as") == ["asym:0.4"]


def test_default_of_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = tmp_path / "my photos.v2"
    photos.mkdir()
    (tmp_path / "a.csv.gz").touch()
    monkeypatch.chdir(tmp_path)
    assert default_out("my photos.v2/", "run") == Path("my-photos.v2-run")
    assert default_out(tmp_path / "a.csv.gz", "run") == Path("a-run")
    assert default_out("cifar10n:worse", "csot") == Path("cifar10n-worse-csot")
    monkeypatch.chdir(photos)
    assert default_out(".", "run") == tmp_path / "my-photos.v2-run", "not into the data"


def test_progress_lines_are_rare_and_tell_the_time_left() -> None:
    times = iter((0.0, 0.1, 0.2, 5.2, 10.2, 12.0, 20.2, 31.0))
    said: list[str] = []
    update = ProgressLines(said.append, lambda: next(times))
    for done in (0, 1000, 1100, 1200, 1250, 1400):
        update("Embedding images", done, 3000)
    update("Judging", 10, 10)
    assert said == [
        "Embedding images: 1,200 of 3,000, about 2 minutes left",
        "Embedding images: 1,400 of 3,000, about 80 seconds left",
    ]


def test_errors_of_the_system_in_words() -> None:
    error = NotADirectoryError(errno.ENOTDIR, "Not a directory", "a.csv/run")
    assert error_words(error) == "a.csv/run: a part of this path is a file, not a folder"
    assert error_words(OSError(errno.EIO, "Input/output error")) == "Input/output error"
    assert error_words(ValueError("plain")) == "plain"
    too_long = OSError(errno.ENAMETOOLONG, "File name too long", "x" * 9000)
    assert len(error_words(too_long)) < 2100
    assert as_options("replace its results (`force`)") == "replace its results (--force)"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "d.csv"
    rows = "".join(f"{row % 2 + row / 100},{row % 3},{'ab'[row % 2]}\n" for row in range(40))
    path.write_text("x,y,label\n" + rows)
    return path


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_file_in_the_way_of_out(table: Path) -> None:
    found = run("clean", table, "--label", "label", "--out", table / "run")
    assert found.exit_code == 2
    assert "Errno" not in found.stderr
    assert "d.csv" in found.stderr


def test_defaults_and_json_from_clean_to_predict(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table.parent)
    cleaned = json.loads(run("clean", "d.csv", "--label", "label", "--json").stdout)
    assert cleaned["run"] == "d-run"
    assert cleaned["n_rows"] == 40
    assert cleaned["uses"].startswith("uses x, y")
    assert Path(cleaned["files"]["report.html"]).exists()
    applied = json.loads(run("apply", "d-run", "--json").stdout)
    assert (applied["data"], applied["changes"]) == ("d-fixed.csv", "d-fixed-changes.csv")
    predicted = json.loads(run("predict", "d-run", "d.csv", "--json").stdout)
    assert predicted["predictions"] == "d-predictions.csv"
    assert json.loads(run("report", "d-run", "--json").stdout) == {"report": "d-run/report.html"}
    sheet = json.loads(run("audit", "d-run", "--rows", 10, "--out", "a.csv", "--json").stdout)
    assert sheet["sheet"] == "a.csv"
    labels = pd.read_csv("a.csv", dtype=str).assign(verified_label="a")
    labels.to_csv("a.csv", index=False)
    audited = json.loads(run("audit", "d-run", "--results", "a.csv", "--json").stdout)
    assert audited["n_verified"] == 10
    assert 0 <= audited["noise_rate"]["low"] <= audited["noise_rate"]["value"] <= 1
    for words in (("report", "d-run"), ("apply", "d-run", "--out", "again.csv")):
        quiet = run(*words, "--quiet")
        assert (quiet.exit_code, quiet.stdout) == (0, "")
