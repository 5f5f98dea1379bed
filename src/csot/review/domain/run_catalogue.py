"""The run in memory: what is known about every row, as arrays. A label is a class number."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from csot._core.array_types import Bools, Floats, Ints
from csot.runs import STATUSES, Run
from csot.runs.findings import (
    CONFIDENCE,
    IS_ISSUE,
    LABEL_COLUMNS,
    NOTE,
    REASON,
    SCORE,
    VERIFIED,
    number_labels,
)
from csot.runs.findings import STATUS as STATUS_COLUMN
from csot.runs.oddities import Oddities, find_oddities
from csot.runs.run import FINDINGS
from csot.runs.tables import Kind, to_text


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Arrays (N,), in the order of the findings. -1 stands for no label."""

    run: Run
    summary: dict[str, Any]
    stamp: str
    """Changes whenever the findings do, so that a page of an older run cannot decide rows."""
    ids: list[str]
    row_of: dict[str, int]
    names: list[str]
    numbers: dict[str, int]
    given: Ints
    predicted: Ints
    standing: Ints
    """The label of the run itself; used where there is no decision."""
    suggested: Ints
    """The label proposed to the reviewer: `standing`, or the likelier class where the run leaves a
    label it considers wrong."""
    score: Floats
    """Probability that the given label is right; NaN where there is none."""
    confidence: Floats
    """Probability of the suggested label."""
    status: Ints
    """Position in STATUSES."""
    issue: Bools
    notes: list[str]
    reasons: list[str]
    """Why, in words; empty in runs of older versions."""
    locked: Bools
    """Verified before this run."""
    probabilities: npt.NDArray[np.float32] | None
    odd: Oddities
    """Duplicates, conflicts, rows that no class fits, rare classes."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def changes(self) -> Bools:
        """Rows whose label the run changes: what precision is about."""
        found: Bools = (self.standing != self.given) & (self.standing >= 0) & ~self.locked
        return found

    @property
    def differs(self) -> Bools:
        """Rows with a suggestion that is not the given label, made by the run or left to you."""
        found: Bools = (self.suggested != self.given) & (self.suggested >= 0)
        return found

    @property
    def flagged(self) -> Bools:
        """Rows worth a look: a change, an issue or no verdict, and not verified before."""
        clean = self.status == STATUSES.index("clean")
        found: Bools = (self.issue | ~clean | (self.given < 0)) & ~self.locked
        return found

    def name(self, label: int) -> str | None:
        """The class of that number."""
        return self.names[label] if 0 <= label < len(self.names) else None

    def number(self, name: str) -> int:
        """The number of a class; one that the run no longer has gets a new number."""
        if name not in self.numbers:
            self.numbers[name] = len(self.names)
            self.names.append(name)
        return self.numbers[name]

    @property
    def source(self) -> dict[str, Any]:
        """Where the data came from; empty if the run does not say."""
        found = self.summary.get("source")
        return found if isinstance(found, dict) else {}

    @property
    def title(self) -> str:
        """The data's own name, else the run's."""
        path = self.source.get("path")
        return Path(path).name if isinstance(path, str) and path else self.run.path.resolve().name


def load_catalogue(run: Run) -> Catalogue:
    """Read the findings and map the probabilities; texts and pictures are read when shown."""
    stamp = _stamp(run)
    findings, summary = run.read_findings(), run.read_summary()
    kind = run.label_kind
    names = list(dict.fromkeys(to_text(name, kind) for name in summary["class_names"]))
    numbers = {name: number for number, name in enumerate(names)}
    given, predicted, corrected = (
        number_labels(findings[column], numbers, lambda label: to_text(label, kind))
        for column in LABEL_COLUMNS
    )
    ids = _texts(findings.index.tolist(), run.id_kind)
    probabilities = run.read_probabilities()
    if probabilities is not None and probabilities.shape != (len(ids), len(names)):
        probabilities = None  # of another run, or classes that the summary does not list
    notes = findings[NOTE].tolist()
    score = findings[SCORE].to_numpy(dtype=np.float64)
    confidence = findings[CONFIDENCE].to_numpy(dtype=np.float64, copy=True)
    locked = np.array([note == VERIFIED for note in notes], dtype=np.bool_)
    standing = np.where(corrected >= 0, corrected, predicted)
    suggested = standing.copy()
    if probabilities is not None:
        open_ = (standing == given) & (predicted != given) & ~locked
        open_ &= (findings[STATUS_COLUMN] == "uncertain").to_numpy() & (predicted < len(names))
        rows = np.flatnonzero(open_)
        likelier = np.asarray(probabilities[rows, predicted[rows]], dtype=np.float64)
        rows, likelier = rows[likelier > score[rows]], likelier[likelier > score[rows]]
        suggested[rows], confidence[rows] = predicted[rows], likelier
    status = findings[STATUS_COLUMN].map({name: k for k, name in enumerate(STATUSES)})
    return Catalogue(
        run=run,
        summary=summary,
        stamp=stamp,
        ids=ids,
        row_of={value: row for row, value in enumerate(ids)},
        names=list(numbers),
        numbers=numbers,
        given=given,
        predicted=predicted,
        standing=standing,
        suggested=suggested,
        score=score,
        confidence=confidence,
        status=np.asarray(status, dtype=np.int64),
        issue=findings[IS_ISSUE].to_numpy(dtype=np.bool_),
        notes=notes,
        reasons=findings[REASON].tolist(),
        locked=locked,
        probabilities=probabilities,
        odd=find_oddities(run, findings.index, given, notes),
    )


def _texts(values: list[Any], kind: Kind) -> list[str]:
    if kind in ("text", "integer"):  # the usual ones, many at a time
        return list(map(str, values))
    return [to_text(value, kind) for value in values]


def _stamp(run: Run) -> str:
    found = (run.path / FINDINGS).stat()
    return hashlib.sha256(f"{found.st_mtime_ns} {found.st_size}".encode()).hexdigest()[:16]
