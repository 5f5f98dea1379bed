"""What an audit is about: the rows that have a label, and what the run says of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot.records import check_findings
from csot.records.findings import (
    CORRECTED,
    FINDINGS_COLUMNS,
    GIVEN,
    IS_ISSUE,
    NOTE,
    PREDICTED,
    SCORE,
    VERIFIED,
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Population:
    """Arrays (N,), in the order of the findings. Labels are class numbers, -1 for none."""

    given: Ints
    predicted: Ints
    corrected: Ints
    issue: Bools
    score: Floats
    """Probability that the given label is right."""
    known: Bools
    """Verified before this run: ``corrected`` is the truth there."""

    def __len__(self) -> int:
        return len(self.given)

    @property
    def labelled(self) -> Bools:
        """Rows that the noise rate is about."""
        found: Bools = self.given >= 0
        return found

    @property
    def open(self) -> Bools:
        """Rows that can be drawn: labelled, and not verified yet."""
        found: Bools = self.labelled & ~self.known
        return found


def population_of(findings: pd.DataFrame) -> tuple[Population, list[Any]]:
    """From a findings table, and the classes in the order of their numbers.

    Further columns, such as those of ``find_label_issues``, are allowed.
    """
    check_findings(findings[[name for name in FINDINGS_COLUMNS if name in findings]])
    numbers: dict[Any, int] = {}

    def codes(column: str) -> Ints:
        found, labels = pd.factorize(findings[column].astype(object))
        known = [numbers.setdefault(label, len(numbers)) for label in labels.tolist()]
        return np.array([*known, -1], dtype=np.int64)[found]

    population = Population(
        given=codes(GIVEN),
        predicted=codes(PREDICTED),
        corrected=codes(CORRECTED),
        issue=findings[IS_ISSUE].to_numpy(dtype=np.bool_),
        score=findings[SCORE].to_numpy(dtype=np.float64),
        known=(findings[NOTE] == VERIFIED).to_numpy(dtype=np.bool_),
    )
    return population, list(numbers)
