"""Which rows to verify: strata, and a random order of which every prefix is a stratified sample."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from csot._core.array_types import Bools, Floats, Ints
from csot.runs import check_findings
from csot.runs.findings import (
    CORRECTED,
    FINDINGS_COLUMNS,
    GIVEN,
    IS_ISSUE,
    NOTE,
    PREDICTED,
    SCORE,
    VERIFIED,
    number_labels,
)


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
    """Verified before this run: `corrected` is the truth there."""

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
    """Read a findings table; also returns the classes in the order of their numbers.

    Further columns, such as those of `find_label_issues`, are allowed.
    """
    check_findings(findings[[name for name in FINDINGS_COLUMNS if name in findings]])
    numbers: dict[Any, int] = {}
    population = Population(
        given=number_labels(findings[GIVEN], numbers),
        predicted=number_labels(findings[PREDICTED], numbers),
        corrected=number_labels(findings[CORRECTED], numbers),
        issue=findings[IS_ISSUE].to_numpy(dtype=np.bool_),
        score=findings[SCORE].to_numpy(dtype=np.float64),
        known=(findings[NOTE] == VERIFIED).to_numpy(dtype=np.bool_),
    )
    return population, list(numbers)


STRATA = 8
"""About how many; each group has at least one."""
LEAST_ERROR = 0.05
GROUPS = {
    "corrected": "flagged and changed",
    "changed": "changed, not flagged",
    "flagged": "flagged, not changed",
    "doubted": "neither, but another class is predicted",
    "agreed": "neither, and predicted as given",
}
"""What the run did with a label."""
CHANGED = ("corrected", "changed")
FLAGGED = ("corrected", "flagged")


@dataclass(frozen=True)
class Stratum:
    """Rows of one group with low <= score <= high."""

    group: str
    low: float
    high: float
    size: int
    expected: float
    """q_h."""

    @property
    def pull(self) -> float:
        """N_h^2 s_h^2."""
        return self.size**2 * self.expected * (1 - self.expected)


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """An audit: rows in the order in which to verify them."""

    strata: tuple[Stratum, ...]
    rows: Ints
    """(n,): positions in the findings."""
    stratum: Ints
    """(n,): of each row."""
    seed: int

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, n_rows: int) -> AuditPlan:
        """The shorter audit that this one began with."""
        return AuditPlan(self.strata, self.rows[:n_rows], self.stratum[:n_rows], self.seed)

    @property
    def inclusion(self) -> Floats:
        """(n,): the probability with which a row of its stratum is in the plan."""
        counts = np.bincount(self.stratum, minlength=len(self.strata))
        sizes = np.array([stratum.size for stratum in self.strata])
        found: Floats = (counts / sizes)[self.stratum]
        return found


def draw_plan(population: Population, n_rows: int, seed: int) -> AuditPlan:
    """The first `n_rows` of an order that depends on the population and the seed alone."""
    strata, member = make_strata(population)
    if n_rows < len(strata):
        raise ValueError(
            f"`n_rows` is {n_rows}: this run has {len(strata)} strata and each needs a row; ask "
            f"for at least {len(strata)}"
        )
    rng = np.random.default_rng(seed)
    queues = [iter(rng.permutation(np.flatnonzero(member == h))) for h in range(len(strata))]
    order = neyman_allocation(strata, n_rows)
    rows = np.array([next(queues[h]) for h in order], dtype=np.int64)
    return AuditPlan(strata, rows, order, seed)


def make_strata(population: Population) -> tuple[tuple[Stratum, ...], Ints]:
    """The strata, and the stratum of each row (N,), -1 for rows that cannot be drawn."""
    open_ = population.open
    if not open_.any():
        raise ValueError("findings has no row to audit: all are unlabelled or verified before")
    error = expected_error(population)
    spread = np.sqrt(error * (1 - error))
    member = np.full(len(population), -1, dtype=np.int64)
    strata: list[Stratum] = []
    total = float(spread[open_].sum())
    for group, mask in _groups(population).items():
        rows = np.flatnonzero(mask)
        if not len(rows):
            continue
        count = max(1, round(STRATA * float(spread[rows].sum()) / total))
        part = _cut(population.score[rows], spread[rows], count)
        for number in range(int(part.max()) + 1):
            inside = rows[part == number]
            member[inside] = len(strata)
            score = population.score[inside]
            low, high = float(score.min()), float(score.max())
            strata.append(Stratum(group, low, high, len(inside), float(error[inside].mean())))
    return tuple(strata), member


def expected_error(population: Population) -> Floats:
    """e_i, (N,)."""
    doubted = population.predicted != population.given
    error = (1 - population.score + doubted) / 2
    found: Floats = np.clip(np.nan_to_num(error, nan=0.5), LEAST_ERROR, 1 - LEAST_ERROR)
    return found


def neyman_allocation(strata: tuple[Stratum, ...], n_rows: int) -> Ints:
    """The stratum of each of the first rows, the most informative first; at most all rows."""
    # A single row says nothing about the variance in its stratum, so there are two, in two rounds.
    heap = [(-np.inf, -stratum.pull, h) for h, stratum in enumerate(strata)]
    heapq.heapify(heap)
    taken = [0] * len(strata)
    order: list[int] = []
    while heap and len(order) < n_rows:
        _, negative, h = heapq.heappop(heap)
        order.append(h)
        taken[h] += 1
        if taken[h] < strata[h].size:
            gain = -1e300 if taken[h] == 1 else negative / (taken[h] * (taken[h] + 1))
            heapq.heappush(heap, (gain, negative, h))
    return np.array(order, dtype=np.int64)


def _groups(population: Population) -> dict[str, Bools]:
    changed, issue = population.corrected != population.given, population.issue
    doubted = population.predicted != population.given
    masks = (
        changed & issue,
        changed & ~issue,
        ~changed & issue,
        ~changed & ~issue & doubted,
        ~changed & ~issue & ~doubted,
    )
    return {group: population.open & mask for group, mask in zip(GROUPS, masks, strict=True)}


def _cut(score: Floats, spread: Floats, count: int) -> Ints:
    """Numbers 0, 1, ... by the score, equal scores together, with about equal sums of spread."""
    order = np.argsort(score, kind="stable")
    reached = np.cumsum(spread[order])
    targets = reached[-1] * np.arange(1, count) / count
    cuts = np.unique(score[order][np.searchsorted(reached, targets)])
    found = np.searchsorted(cuts, score, side="left")
    number: Ints = np.unique(found, return_inverse=True)[1].astype(np.int64)
    return number
