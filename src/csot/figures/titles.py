"""Titles of runs of any kind, training or cleaning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from csot.figures.records import find_runs, several, training_records
from csot.runs import Run


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
