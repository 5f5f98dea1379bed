"""The command that cleans the data of a run again, with what people decided."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from csot.runs.run import Run


def clean_again(run: Run, decisions: Path, option: str = "--verified") -> str:
    """`csot clean ... --verified FILE`; ``option`` is the one that takes the decisions."""
    return shlex.join([*clean_command(run), option, str(decisions)])


def clean_command(run: Run) -> list[str]:
    """The words of `csot clean ...`, as far as the run remembers its own command.

    Paths stay as they were typed where they mean the same from the current folder, else they are
    absolute.
    """
    summary = run.read_summary()
    source, settings = (_dict(summary.get(name)) for name in ("source", "settings"))
    command = settings.get("command")
    words = shlex.split(command) if isinstance(command, str) and command else []
    if words[:2] != ["csot", "clean"] or len(words) < 3:
        data = source.get("path")
        known = isinstance(data, str) and data
        words = ["csot", "clean", str(data) if known else "DATA", "--out", "NEW_RUN"]
    elif isinstance(source.get("path"), str):
        words[2] = _reachable(words[2], source["path"])
        paths = {
            "--out": run.path.resolve(),
            "--root": source.get("root"),
            "--with": summary.get("judged_with"),
        }
        for flag, path in paths.items():
            if flag in words and path:
                place = words.index(flag) + 1
                words[place] = _reachable(words[place], str(path))
    return words


def _reachable(typed: str, path: str) -> str:
    return typed if os.path.realpath(typed) == os.path.realpath(path) else path


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
