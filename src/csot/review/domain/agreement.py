"""Two reviewers and more: where they agree, and what the overviews add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from csot.review.domain.catalogue import Bools, Ints
from csot.review.domain.ledger import Person


@dataclass(frozen=True)
class Pair:
    """Two reviewers on the rows that both gave a label."""

    first: str
    second: str
    rows: int
    same: int
    kappa: float | None
    """Cohen's; None where chance alone would agree always."""


def cohens_kappa(first: Ints, second: Ints) -> float | None:
    """(p_o - p_e) / (1 - p_e) of two labellings (M,)."""
    if not len(first):
        return None
    size = int(max(first.max(), second.max())) + 1
    a, b = (np.bincount(labels, minlength=size) / len(labels) for labels in (first, second))
    chance = float(a @ b)
    observed = float((first == second).mean())
    return (observed - chance) / (1 - chance) if chance < 1 - 1e-12 else None


def pairs(people: Mapping[str, Person]) -> list[Pair]:
    """Every two reviewers with rows in common."""
    found = []
    for first, second in combinations(sorted(people), 2):
        a, b = people[first].label, people[second].label
        both = (a >= 0) & (b >= 0)
        if both.any():
            same = int((a == b)[both].sum())
            kappa = cohens_kappa(a[both], b[both])
            found.append(Pair(first, second, int(both.sum()), same, kappa))
    return found


def consensus(people: Mapping[str, Person], n_rows: int) -> tuple[Ints, Bools]:
    """The label (N,) that all who gave one agree on, else -1; and where they disagree.

    A reviewer who is unsure contradicts nobody.
    """
    label = np.full(n_rows, -1, dtype=np.int64)
    disagree = np.zeros(n_rows, dtype=np.bool_)
    for person in people.values():
        gave = person.label >= 0
        disagree |= gave & (label >= 0) & (label != person.label)
        label = np.where(gave & (label < 0), person.label, label)
    label[disagree] = -1
    return label, disagree


def touched(people: Mapping[str, Person], n_rows: int) -> Bools:
    """Rows that anybody decided, unsure or not."""
    found = np.zeros(n_rows, dtype=np.bool_)
    for person in people.values():
        found |= person.decided
    return found
