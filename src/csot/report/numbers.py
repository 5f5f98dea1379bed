"""What the report says in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from csot.report.coded import Coded, Floats
from csot.report.confusions import Pair
from csot.runs import STATUSES


@dataclass(frozen=True)
class ClassRow:
    """One given class: how many rows carry it and what we think of them."""

    name: str
    number: int
    count: int
    wrong: float
    corrected: int
    uncertain: int
    confusion: str | None
    confusion_number: int
    confusion_count: int

    @property
    def share(self) -> float:
        return self.wrong / self.count if self.count else 0.0


def class_rows(coded: Coded, confusions: list[Pair]) -> list[ClassRow]:
    """One row per class, in the order of the classes."""
    size = len(coded.names)
    of_class = coded.given[coded.labelled]

    def total(weights: Any) -> Floats:
        kept = np.asarray(weights, float)[coded.labelled]
        return np.bincount(of_class, kept, minlength=size).astype(float)

    count, wrong = total(np.ones(len(coded.given))), total(coded.doubt)
    corrected = total(coded.has_status("corrected"))
    uncertain = total(coded.has_status("uncertain"))
    most: dict[int, Pair] = {}
    for pair in confusions:
        most.setdefault(pair.given, pair)
    return [
        ClassRow(
            name=name,
            number=k,
            count=int(count[k]),
            wrong=float(wrong[k]),
            corrected=int(corrected[k]),
            uncertain=int(uncertain[k]),
            confusion=coded.names[most[k].suggested] if k in most else None,
            confusion_number=most[k].suggested if k in most else -1,
            confusion_count=most[k].count if k in most else 0,
        )
        for k, name in enumerate(coded.names)
    ]


def histogram(coded: Coded, bins: int = 20) -> dict[str, list[int]]:
    """Rows by confidence, for each status."""
    edges = np.linspace(0, 1, bins + 1)
    confidence = np.clip(coded.confidence, 0, 1)
    return {
        name: np.histogram(confidence[coded.has_status(name)], edges)[0].tolist()
        for name in STATUSES
    }
