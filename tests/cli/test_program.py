"""What commands print works as printed."""

from pathlib import Path

import pytest

from csot.cli import terminal as module
from csot.cli.terminal import program


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a virtual environment, none of which is on the path."""
    scripts = tmp_path / ".venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "csot").touch(mode=0o755)
    monkeypatch.setattr(module.sys, "executable", str(scripts / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_path_from_here_in_a_checkout(checkout: Path) -> None:
    assert program() == [".venv/bin/csot"]


def test_the_whole_path_from_elsewhere(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout / ".venv")
    assert program() == ["bin/csot"]
    (checkout / "elsewhere").mkdir()
    monkeypatch.chdir(checkout / "elsewhere")
    assert program() == [str(checkout / ".venv/bin/csot")]


def test_the_name_in_an_activated_environment(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(checkout / ".venv/bin"))
    assert program() == ["csot"]


def test_the_program_of_another_environment_is_not_meant(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = checkout / "other"
    other.mkdir()
    (other / "csot").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(other))
    assert program() == [".venv/bin/csot"]


def test_the_module_where_there_is_no_script(checkout: Path) -> None:
    (checkout / ".venv/bin/csot").unlink()
    assert program() == [str(checkout / ".venv/bin/python"), "-m", "csot"]
