"""The section on duplicates, conflicts, strangers and odd classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from csot.report.coded import Coded, Ints
from csot.runs.oddities import RARE, Oddities, find_twins

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
    """For the script: the kinds of each of the rows shown as bits, and positions among them."""
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
