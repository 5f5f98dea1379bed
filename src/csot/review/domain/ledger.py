"""The decisions in force: the log, added up for each reviewer and row."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from csot._core.array_types import Bools, Ints
from csot.review.domain.decision_log import ACTIONS, UNDO, LogEntry, Store
from csot.review.domain.run_catalogue import Catalogue

UNDECIDED = 0
CODES: dict[str, int] = {action: code for code, action in enumerate(ACTIONS, start=1)}
"""0 is undecided."""
PAUSE = 120.0
"""Seconds without a decision that end a streak; the rate is computed from the last streak."""
STREAK = 100
MOST_REVIEWERS = 1000
"""Each takes ten bytes per row."""


class Standing(NamedTuple):
    """One decision that has not been undone."""

    batch: str
    code: int
    label: int
    way: str


@dataclass(eq=False)
class Person:
    """The standing decisions of one reviewer, as arrays (N,)."""

    action: npt.NDArray[np.int8]
    label: Ints
    """-1 where undecided or unsure."""
    seen: Bools
    """Decided, and not by a rule."""
    stacks: dict[int, list[Standing]] = field(default_factory=dict)
    batches: dict[str, list[int]] = field(default_factory=dict)
    """Rows of each batch, the latest batch last."""
    undone: dict[str, list[int]] = field(default_factory=dict)
    """Rows of each undoing, by its own batch."""
    times: list[float] = field(default_factory=list)

    @property
    def decided(self) -> Bools:
        found: Bools = self.action != UNDECIDED
        return found

    def settle(self, row: int) -> None:
        """The last decision on a row that is left counts."""
        stack = self.stacks.get(row)
        last = stack[-1] if stack else None
        self.action[row] = UNDECIDED if last is None else last.code
        self.label[row] = -1 if last is None else last.label
        self.seen[row] = last is not None and last.way != "rule"

    def rate(self) -> float | None:
        """Decisions per minute over the last streak, or None if there is none."""
        times = self.times[-STREAK:]
        start = len(times) - 1
        while start > 0 and times[start] - times[start - 1] < PAUSE:
            start -= 1
        span = times[-1] - times[start] if times else 0.0
        return 60 * (len(times) - 1 - start) / span if span > 0 else None


class Ledger:
    """Follows the log; other processes' decisions come in with `refresh`."""

    def __init__(self, catalogue: Catalogue, store: Store) -> None:
        self._catalogue = catalogue
        self._store = store
        self._seq = 0
        self._lock = threading.RLock()
        self.people: dict[str, Person] = {}
        self.unknown: set[str] = set()
        """Decided ids that the run does not have."""
        self.refresh()

    def refresh(self) -> None:
        with self._lock:
            touched: set[tuple[str, int]] = set()
            for entry in self._store.since(self._seq):
                row = self._catalogue.row_of.get(entry.id)
                self._seq = entry.seq
                if row is None:
                    self.unknown.add(entry.id)
                else:
                    self._apply(entry, row)
                    touched.add((entry.reviewer, row))
            for name, row in touched:
                self.people[name].settle(row)

    def person(self, name: str) -> Person:
        """The reviewer of that name; a new one has no decisions."""
        with self._lock:
            if name not in self.people:
                n = len(self._catalogue)
                if len(self.people) >= MOST_REVIEWERS:
                    raise ValueError(
                        f"{self._store.path} names more than {MOST_REVIEWERS:,} reviewers: it is "
                        "not a record of people's decisions; move it away"
                    )
                self.people[name] = Person(
                    np.zeros(n, dtype=np.int8),
                    np.full(n, -1, dtype=np.int64),
                    np.zeros(n, dtype=np.bool_),
                )
            return self.people[name]

    def reviewers(self) -> list[str]:
        """Those with a standing decision."""
        return sorted(name for name, person in self.people.items() if person.decided.any())

    def last_batch(self, name: str) -> str | None:
        """What an undo would take back."""
        return next(reversed(self.person(name).batches), None)

    def _apply(self, entry: LogEntry, row: int) -> None:
        person = self.people.get(entry.reviewer) or self.person(entry.reviewer)
        if entry.action == UNDO:
            kept = [old for old in person.stacks.get(row, []) if old.batch != entry.undoes]
            person.stacks[row] = kept
            person.batches.pop(entry.undoes or "", None)
            person.undone.setdefault(entry.batch, []).append(row)
        else:
            label = -1 if entry.label is None else self._catalogue.number(entry.label)
            stand = Standing(entry.batch, CODES[entry.action], label, entry.way)
            person.stacks.setdefault(row, []).append(stand)
            person.batches.setdefault(entry.batch, []).append(row)
            if entry.way in ("one", "audit"):
                person.times.append(datetime.fromisoformat(entry.time).timestamp())


# Two reviewers and more: where they agree, and what the overviews add up.


@dataclass(frozen=True)
class ReviewerPair:
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


def pairs(people: Mapping[str, Person]) -> list[ReviewerPair]:
    """Every two reviewers with rows in common."""
    found = []
    for first, second in combinations(sorted(people), 2):
        a, b = people[first].label, people[second].label
        both = (a >= 0) & (b >= 0)
        if both.any():
            same = int((a == b)[both].sum())
            kappa = cohens_kappa(a[both], b[both])
            found.append(ReviewerPair(first, second, int(both.sum()), same, kappa))
    return found


def consensus(people: Mapping[str, Person], n_rows: int) -> tuple[Ints, Bools]:
    """The label (N,) that all who gave one agree on, else -1; and where they disagree.

    An unsure reviewer does not disagree with anyone.
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
