"""The data that a run came from: the user's own table, and the command that cleans it again.

The table is kept in corrected.csv.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from csot.runs.findings import CORRECTED, GIVEN
from csot.runs.run import CORRECTED_TABLE, Run
from csot.runs.tables import read_text_csv


def read_own_table(run: Run, ids: Sequence[str], columns: int | None = None) -> pd.DataFrame | None:
    """Cells as text, indexed by id; None if the run has no table that contains all `ids`.

    `columns` bounds how many columns are read, from the left; a column of ids is always among
    them.
    """
    path = run.path / CORRECTED_TABLE
    if not path.exists():
        return None
    settings = _settings(run)
    table = read_text_csv(
        path,
        columns=columns,
        always=lambda names: _id_column(names, settings),
        excel_safe=run.excel_safe,
    )
    key = _id_column(list(table.columns), settings)
    keys = [str(row) for row in range(len(table))] if key is None else table[key].str.strip()
    table.index = pd.Index(keys, dtype=object)
    if table.index.has_duplicates or not set(ids) <= set(table.index):
        return None
    return table


def read_cells(run: Run, ids: Sequence[str], columns: int | None = None) -> pd.DataFrame | None:
    """What describes each row, in the order of `ids`, without its labels.

    `columns` as in `read_own_table`. None if there is nothing beside the id.
    """
    table = read_own_table(run, ids, columns)
    if table is None:
        return None
    hidden = {CORRECTED, GIVEN, _settings(run).get("label")}
    shown = [name for name in table.columns if name not in hidden]
    found = table[shown].reindex(pd.Index(ids, dtype=object))
    return found.fillna("") if len(found.columns) > 1 else None


def _settings(run: Run) -> Mapping[str, Any]:
    settings = run.read_summary().get("settings")
    return settings if isinstance(settings, dict) else {}


def _id_column(names: list[str], settings: Mapping[str, Any]) -> str | None:
    """The column that `csot clean` took the ids from; None if it counted rows."""
    named = settings.get("id")
    if isinstance(named, str) and named in names:
        return named
    label = settings.get("label")
    return next((name for name in names if name.lower() == "id" and name != label), None)


def clean_again(run: Run, decisions: Path, option: str = "--verified") -> str:
    """`csot clean ... --verified FILE`; `option` is the one that takes the decisions."""
    return shlex.join([*clean_command(run), option, str(decisions)])


def clean_command(run: Run) -> list[str]:
    """The words of the command `csot clean ...`, from what the run recorded of it.

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
