"""Findings as arrays of class numbers, for the counts of the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from csot._core.array_types import Bools, Floats, Ints
from csot.runs.findings import (
    CONFIDENCE,
    IS_ISSUE,
    LABEL_COLUMNS,
    NOTE,
    REASON,
    SCORE,
    STATUS,
    STATUSES,
    number_labels,
)


@dataclass(frozen=True, eq=False)
class Coded:
    """Arrays (N,). A label is a position in `names`, -1 where there is none."""

    names: list[str]
    given: Ints
    predicted: Ints
    corrected: Ints
    issue: Bools
    score: Floats
    """NaN where no label was given."""
    confidence: Floats
    status: Ints
    """Position in STATUSES."""
    notes: list[str]
    reasons: list[str]

    @property
    def labelled(self) -> Bools:
        return self.given >= 0

    @property
    def doubt(self) -> Floats:
        """1 - score: the probability that the given label is wrong; 0 where none was given."""
        return np.where(self.labelled, 1 - np.nan_to_num(self.score, nan=1.0), 0.0)

    def has_status(self, status: str) -> Bools:
        return np.equal(self.status, [str(name) for name in STATUSES].index(status))


def encode(findings: pd.DataFrame, class_names: list[Any]) -> Coded:
    """Number the labels: the classes of the run first, then any other that occurs."""
    positions = {name: i for i, name in enumerate(dict.fromkeys(map(str, class_names)))}
    given, predicted, corrected = (
        number_labels(findings[column], positions, str) for column in LABEL_COLUMNS
    )
    statuses = {name: i for i, name in enumerate(STATUSES)}
    return Coded(
        names=list(positions),
        given=given,
        predicted=predicted,
        corrected=corrected,
        issue=findings[IS_ISSUE].to_numpy(dtype=bool),
        score=findings[SCORE].to_numpy(dtype=float),
        confidence=findings[CONFIDENCE].to_numpy(dtype=float),
        status=np.array([statuses[s] for s in findings[STATUS].tolist()], dtype=np.int64),
        notes=findings[NOTE].tolist(),
        reasons=findings[REASON].tolist(),
    )
