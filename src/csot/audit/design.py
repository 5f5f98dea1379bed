"""Which rows to verify: strata, and a random order of which every prefix is a stratified sample.

    e_i     probability that the label of row i is wrong. Two explanations are open, overlap of the
            classes and wrong labels: (1 - score_i) and [predicted_i != given_i]. Their mean counts,
            kept within [0.05, 0.95], because the run can be wrong about both.
    q_h     mean of e_i over stratum h;  s_h^2 = q_h (1 - q_h), N_h rows

Strata never mix what the run did with a label (see `GROUPS`), so that the precision of each of its
verdicts is a share of whole strata. Within a group they are intervals of the score, cut so that
sum_i sqrt(e_i (1 - e_i)) is about the same in each.

Allocation: every stratum gets two rows. Then the next row comes from the stratum in which it lowers
the variance of the noise rate, sum_h N_h^2 s_h^2 (1 / n_h - 1 / N_h), the most: that with the
largest N_h^2 s_h^2 / (n_h (n_h + 1)). The greedy order is Neyman's optimal allocation in whole
numbers at every length (Wright, 2012, on the method of equal proportions), and row i of stratum h
is among the first n with probability n_h / N_h.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from csot.audit.population import Bools, Floats, Ints, Population

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
class Plan:
    """An audit: rows in the order in which to verify them."""

    strata: tuple[Stratum, ...]
    rows: Ints
    """(n,): positions in the findings."""
    stratum: Ints
    """(n,): of each row."""
    seed: int

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, n_rows: int) -> Plan:
        """The shorter audit that this one began with."""
        return Plan(self.strata, self.rows[:n_rows], self.stratum[:n_rows], self.seed)

    @property
    def inclusion(self) -> Floats:
        """(n,): the probability with which a row of its stratum is in the plan."""
        counts = np.bincount(self.stratum, minlength=len(self.strata))
        sizes = np.array([stratum.size for stratum in self.strata])
        found: Floats = (counts / sizes)[self.stratum]
        return found


def draw_plan(population: Population, n_rows: int, seed: int) -> Plan:
    """The first ``n_rows`` of an order that depends on the population and the seed alone."""
    strata, member = make_strata(population)
    if n_rows < len(strata):
        raise ValueError(
            f"n_rows={n_rows}: this run has {len(strata)} strata and each needs a row; ask for at "
            f"least {len(strata)}"
        )
    rng = np.random.default_rng(seed)
    queues = [iter(rng.permutation(np.flatnonzero(member == h))) for h in range(len(strata))]
    order = allocate(strata, n_rows)
    rows = np.array([next(queues[h]) for h in order], dtype=np.int64)
    return Plan(strata, rows, order, seed)


def make_strata(population: Population) -> tuple[tuple[Stratum, ...], Ints]:
    """The strata, and that of each row (N,); -1 for rows that cannot be drawn."""
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


def allocate(strata: tuple[Stratum, ...], n_rows: int) -> Ints:
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
