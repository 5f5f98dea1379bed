"""What is made of files that no case damages is made once, and again whenever they are others.

A case damages one file of a run; reading the others again would take most of its time.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from csot.audit import sheet
from csot.figures.comparison import measured
from csot.report import rows, write
from csot.review.domain import precision, session
from csot.review.domain.run_catalogue import Catalogue
from csot.runs import Run, run, summary
from csot.runs.marker import MARKER
from csot.runs.run import DUPLICATES, FEATURES, FINDINGS, PROBABILITIES, SAMPLES, SUMMARY
from csot.training import checkpoint
from csot.training.run_folder import CONFIG, INPUTS, RunFolder


def _content(path: Path) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def once(
    function: Callable[[Any], Any],
    files: tuple[str, ...] = (),
    copied: Callable[[Any], Any] = lambda found: found,
) -> Callable[[Any], Any]:
    """In place of ``function``, which reads a path, or ``files`` of a run, and nothing else.

    Errors are not kept. Only the last result is, by the content of the files.
    """
    kept: dict[tuple[Any, ...], Any] = {}

    def read(place: Any) -> Any:
        folder = getattr(place, "path", place)
        key = (folder, *(_content(folder / name) for name in files or ("",)))
        if key not in kept:
            found = function(place)
            kept.clear()
            kept[key] = found
        return copied(kept[key])

    return read


def _copied_frame(frame: pd.DataFrame | None) -> pd.DataFrame | None:
    return None if frame is None else frame.copy(deep=False)


def _copied_catalogue(catalogue: Catalogue) -> Catalogue:
    """Reviewers add classes."""
    return replace(catalogue, names=list(catalogue.names), numbers=dict(catalogue.numbers))


RUNS_OF = measured._runs_of


def _all_runs(folder: Path) -> list[Any]:
    return list(RUNS_OF(folder))


def _once_for_equal(function: Callable[..., Any]) -> Callable[..., Any]:
    """In place of ``function`` of a table of findings, and perhaps of names."""
    kept: list[tuple[pd.DataFrame, str, Any]] = []

    def call(findings: pd.DataFrame, *names: list[Any]) -> Any:
        words = repr(names)  # 1 is equal to True, and another name
        if not kept or kept[0][1] != words or not kept[0][0].equals(findings):
            kept[:] = [(findings, words, function(findings, *names))]
        return kept[0][2]

    return call


CATALOGUE = (MARKER, SUMMARY, FINDINGS, PROBABILITIES, DUPLICATES)
KEPT: list[tuple[Any, str, Any]] = [
    (run, "read_marker", once(run.read_marker, (MARKER,), copy)),
    (summary, "read_summary", once(summary.read_summary, copied=copy)),
    (Run, "_read_findings", once(Run._read_findings, (FINDINGS, MARKER), _copied_frame)),
    (Run, "read_samples", once(Run.read_samples, (SAMPLES, MARKER), _copied_frame)),
    (Run, "read_features", once(Run.read_features, (FEATURES,))),
    (session, "load_catalogue", once(session.load_catalogue, CATALOGUE, _copied_catalogue)),
    (sheet, "population_of", _once_for_equal(sheet.population_of)),
    (write, "encode", _once_for_equal(write.encode)),
    (rows, "thumbnail", lru_cache(maxsize=1024)(rows.thumbnail)),
    (precision, "DRAWS", 200),
    (ast, "literal_eval", lru_cache(maxsize=256)(ast.literal_eval)),  # headers of arrays
    (RunFolder, "read_config", once(RunFolder.read_config, (CONFIG,))),
    (RunFolder, "read_inputs", once(RunFolder.read_inputs, (INPUTS,))),
    (checkpoint, "read_torch", once(checkpoint.read_torch, copied=copy)),
    (checkpoint, "read_safetensors", once(checkpoint.read_safetensors, copied=copy)),
    (measured, "_runs_of", once(_all_runs, (measured.CELLS,))),
]
"""Owner, name, and what takes its place: of pictures and draws, which no case damages, as well."""


@contextmanager
def undamaged_once() -> Iterator[None]:
    """Within it, what `KEPT` names is made once."""
    own = [(owner, name, vars(owner)[name]) for owner, name, _ in KEPT]
    for owner, name, value in KEPT:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in own:
            setattr(owner, name, value)
