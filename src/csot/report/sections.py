"""Sections of the report: annotators; duplicates, conflicts and odd classes; one row per class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from csot._core.array_types import Floats, Ints
from csot.report.coded_findings import Coded
from csot.report.confused_pairs import ConfusedPair
from csot.runs import STATUSES
from csot.runs.oddities import RARE, Oddities, find_twins

LISTED = 200
"""Annotators shown at most: the best half and the worst half of them."""


@dataclass(frozen=True)
class AnnotatorRow:
    """One annotator; shares are None where nothing is known about them."""

    name: str
    quality: float
    low: float
    high: float
    votes: int
    with_consensus: float | None
    with_others: float | None
    worst_class: str
    worst_accuracy: float | None
    confused: str
    confused_as: str


@dataclass(frozen=True)
class Annotators:
    """Best first; `hidden` of them, from the middle, are left out."""

    rows: list[AnnotatorRow]
    number: int
    hidden: int
    votes: int
    wrong_votes: int | None


def annotator_section(frame: pd.DataFrame | None, summary: Mapping[str, Any]) -> Annotators | None:
    """From the cells of annotators.csv; None where the labels are of one annotator."""
    if frame is None or frame.empty:
        return None
    rows = [_row(cells) for cells in frame.to_dict(orient="records")]
    shown = rows if len(rows) <= LISTED else [*rows[: LISTED // 2], *rows[-LISTED // 2 :]]
    wrong = summary.get("n_vote_issues")
    return Annotators(
        rows=shown,
        number=len(rows),
        hidden=len(rows) - len(shown),
        votes=sum(row.votes for row in rows),
        wrong_votes=wrong if isinstance(wrong, int) else None,
    )


def _row(cells: Mapping[Any, Any]) -> AnnotatorRow:
    def number(name: str) -> float | None:
        text = cells[name]
        return float(text) if text else None

    return AnnotatorRow(
        name=cells["annotator"],
        quality=float(cells["quality"]),
        low=float(cells["quality_low"]),
        high=float(cells["quality_high"]),
        votes=int(cells["n_votes"]),
        with_consensus=number("agreement_with_consensus"),
        with_others=number("agreement_with_others"),
        worst_class=cells["worst_class"],
        worst_accuracy=number("worst_class_accuracy"),
        confused=cells["confused_class"],
        confused_as=cells["confused_as"],
    )


# The section on duplicates, conflicts, outliers and odd classes.

KINDS = ("conflict", "stranger", "rare", "duplicate")
"""Masks of `Oddities`, in the order of the bits that the page's script reads."""
LISTED_GROUPS = 24
LISTED_STRANGERS = 12
LISTED_CLASSES = 60


@dataclass(frozen=True)
class RareClass:
    name: str
    number: int
    count: int


@dataclass(frozen=True)
class OddSection:
    """Counts over all rows, and what is listed."""

    n_conflicts: int
    """Groups of near-duplicates with different labels."""
    n_conflict_rows: int
    n_strangers: int
    n_duplicates: int
    n_groups: int
    rare: list[RareClass]
    n_rare: int
    twins: list[tuple[RareClass, RareClass]]
    n_twins: int

    @property
    def is_empty(self) -> bool:
        return not (
            self.n_conflicts or self.n_strangers or self.n_duplicates or self.n_rare or self.n_twins
        )


def odd_section(coded: Coded, odd: Oddities) -> OddSection:
    counts = np.bincount(coded.given[coded.labelled], minlength=len(coded.names))

    def entry(number: int) -> RareClass:
        return RareClass(coded.names[number], number, int(counts[number]))

    few = set(np.flatnonzero((counts > 0) & (counts < RARE)).tolist())
    rare = sorted(few | set(coded.given[odd.rare].tolist()), key=lambda k: (counts[k], k))
    twins = find_twins(coded.given, coded.predicted)
    return OddSection(
        n_conflicts=len(odd.conflicts()),
        n_conflict_rows=int(odd.conflict.sum()),
        n_strangers=int(odd.stranger.sum()),
        n_duplicates=int(odd.duplicate.sum()),
        n_groups=len(np.unique(odd.group[odd.duplicate])),
        rare=[entry(number) for number in rare[:LISTED_CLASSES]],
        n_rare=len(rare),
        twins=[(entry(pair.first), entry(pair.second)) for pair in twins[:LISTED_CLASSES]],
        n_twins=len(twins),
    )


def odd_data(odd: Oddities, rows: Ints) -> dict[str, Any]:
    """Data for the script: the kinds of each row shown as bits, and positions among them."""
    place = {row: position for position, row in enumerate(rows.tolist())}
    kinds = np.zeros(len(rows), dtype=np.int64)
    for bit, kind in enumerate(KINDS):
        kinds |= getattr(odd, kind)[rows].astype(np.int64) << bit
    groups = [[place[row] for row in group.tolist() if row in place] for group in odd.conflicts()]
    strangers = [position for row, position in place.items() if odd.stranger[row]]
    return {
        "kinds": kinds.tolist(),
        "conflicts": [group for group in groups if len(group) > 1][:LISTED_GROUPS],
        "strangers": strangers[:LISTED_STRANGERS],
    }


# One row per class, and how confident the verdicts are.


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


def class_rows(coded: Coded, confusions: list[ConfusedPair]) -> list[ClassRow]:
    """One row per class, in the order of the classes."""
    size = len(coded.names)
    of_class = coded.given[coded.labelled]

    def total(weights: Any) -> Floats:
        kept = np.asarray(weights, float)[coded.labelled]
        return np.bincount(of_class, kept, minlength=size).astype(float)

    count, wrong = total(np.ones(len(coded.given))), total(coded.doubt)
    corrected = total(coded.has_status("corrected"))
    uncertain = total(coded.has_status("uncertain"))
    most: dict[int, ConfusedPair] = {}
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
