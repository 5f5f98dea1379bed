"""Finished runs: find them in folders, give them distinct names, and read their metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from csot._core.errors import naming
from csot._core.files import check_file
from csot.runs import Run
from csot.runs.marker import MARKER
from csot.runs.run import SUMMARY
from csot.runs.summary import dumps

CELLS = "cells"
"""`csot compare` writes its runs to cells/METHOD/NOISE/seed-N, METHOD+KEY=VALUE if it varies."""
TRANSPORTS = {"csot@a": "OT", "csot@b": "SOT", "csot@c": "COT", "csot": "CSOT"}
"""The ablations by what they solve."""
MOST_RUNS = 5000
LARGEST_METRICS = 64 << 20
"""Bytes of metrics.csv; an epoch has some 300."""


@dataclass(frozen=True, eq=False)
class Record:
    """A training run, and what to call it in a figure."""

    run: Run
    title: str

    @cached_property
    def summary(self) -> dict[str, Any]:
        return self.run.read_summary()

    @cached_property
    def history(self) -> pd.DataFrame:
        """metrics.csv: one row per epoch."""
        return read_history(self.run.path)

    @property
    def noise(self) -> str:
        return str(self.summary.get("noise", "none"))

    @property
    def seed(self) -> int:
        return int(self.summary.get("seed", 0))

    def setting(self, name: str) -> Any:
        """A setting of the method, None if it has none of that name."""
        settings = self._configuration().get("settings")
        return settings.get(name) if isinstance(settings, dict) else None

    def other_settings(self, name: str) -> str:
        """All that the run was configured with but this setting and the seed, as text."""
        found = {**self._configuration(), "seed": None, "machine": None}
        settings = found.get("settings")
        if isinstance(settings, dict):
            found["settings"] = {key: value for key, value in settings.items() if key != name}
        return dumps(found)

    def _configuration(self) -> dict[str, Any]:
        return self.summary.get("settings") or {}


def read_history(run: Path) -> pd.DataFrame:
    """metrics.csv: a row for each epoch, and only numbers."""
    path = run / "metrics.csv"
    check_file(path, LARGEST_METRICS)
    with naming(path, "a table of numbers by epoch"):
        frame = pd.read_csv(path, index_col=False)
        if "epoch" not in frame or not all(
            pd.api.types.is_numeric_dtype(dtype) for dtype in frame.dtypes
        ):
            raise ValueError("it needs a column epoch, and numbers in all columns")
        return frame


def find_runs(places: Sequence[str | Path]) -> list[Run]:
    """Finished runs: each place is one, or a folder with runs below it."""
    found: dict[Path, None] = {}
    for place in map(Path, places):
        if (place / MARKER).exists():
            found.setdefault(Run.open(place).path)
            continue
        markers = sorted(place.rglob(MARKER)) if place.is_dir() else []
        finished = [path.parent for path in markers if (path.parent / SUMMARY).exists()]
        if not finished:
            raise ValueError(f"{place} is not a finished run, and holds none")
        found |= dict.fromkeys(finished[:MOST_RUNS])
    return [Run.open(path) for path in found]


def several(places: str | Path | Run | Iterable[str | Path | Run]) -> list[str | Path | Run]:
    """One place is a list of one: a string must not be taken for its letters."""
    return [places] if isinstance(places, str | Path | Run) else list(places)


def training_records(places: str | Path | Run | Iterable[str | Path | Run]) -> list[Record]:
    """The training runs in these places, with titles that differ where the runs do.

    A run of `csot compare` is called as its folder there, another one by its method; where two of
    the same noise and seed have the same name, their folders are added.
    """
    given = several(places)
    runs = [place for place in given if isinstance(place, Run)]
    runs += find_runs([place for place in given if not isinstance(place, Run)])
    found = [Record(run, _title(run)) for run in runs if (run.path / "metrics.csv").exists()]
    if not found:
        raise ValueError("none of these folders is a training run: they have no metrics.csv")
    names = {record.title for record in found}
    if len(names & TRANSPORTS.keys()) > 1 and names & (TRANSPORTS.keys() - {"csot"}):
        found = [Record(one.run, TRANSPORTS.get(one.title, one.title)) for one in found]
    keys = Counter((one.title, one.noise, one.seed) for one in found)
    return [
        Record(one.run, f"{one.title} ({one.run.path.name})")
        if keys[one.title, one.noise, one.seed] > 1
        else one
        for one in found
    ]


def _title(run: Run) -> str:
    parts = run.path.resolve().parts
    if CELLS in parts[:-1]:
        after = parts[len(parts) - parts[::-1].index(CELLS) :]
        return after[0].replace("+", " ")
    return str(run.read_summary().get("method", run.path.name))


def titles_of(records: Sequence[Record]) -> list[str]:
    """Each title once, in order; those of the paper's transports in the paper's."""
    names = list(dict.fromkeys(record.title for record in records))
    order = [name for name in TRANSPORTS.values() if name in names]
    return [*(name for name in names if name not in order), *order]


def titled_runs(runs: str | Path | Run | Sequence[str | Path | Run]) -> dict[str, Run]:
    """Runs by title: training runs by method, others by the name of their folder."""
    places = several(runs)
    given = [run for run in places if isinstance(run, Run)]
    every = [*given, *find_runs([run for run in places if not isinstance(run, Run)])]
    if not every:
        raise ValueError("`runs` is empty: give the folder of a run")
    if all((run.path / "metrics.csv").exists() for run in every):
        return {record.title: record.run for record in training_records(every)}
    return {run.path.resolve().name: run for run in every}
