"""How often the suggestions are right, by the decisions on them.

Decisions of a rule do not count here: no person saw them. Within a band of confidence the rows
decided are taken as a sample of the rest, k of n right:

    band:     Wilson's interval of k / n
    all left: sum_b w_b q_b,  q_b ~ Beta(k_b + 1/2, n_b - k_b + 1/2),  w_b the share of what is left

its mean and the middle 95 % of it. A band without decisions makes the answer vague, not wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from csot._core.array_types import Bools
from csot.audit.interval import LEVEL, Estimate
from csot.review.domain.ledger import CODES, Person
from csot.review.domain.run_catalogue import Catalogue
from csot.runs.noise import wilson_interval

EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0)
DRAWS = 20_000


@dataclass(frozen=True)
class Band:
    """Suggestions of one band of confidence: low <= confidence < high; the last holds 1 too."""

    low: float
    high: float
    right: int
    judged: int
    unsure: int
    left: int
    precision: Estimate | None
    """None before the first decision."""


def wilson(right: int, judged: int) -> Estimate:
    """Wilson's 95 % interval."""
    return Estimate(right / judged, *wilson_interval(right, judged))


def suggestions_judged(catalogue: Catalogue, person: Person) -> Bools:
    """Changes that the reviewer looked at and gave a label."""
    return catalogue.changes & person.seen & (person.label >= 0)


def bands(catalogue: Catalogue, person: Person) -> list[Band]:
    """Every band that has suggestions, the surest first."""
    changes = catalogue.changes
    judged = suggestions_judged(catalogue, person)
    right = judged & (person.label == catalogue.suggested)
    unsure = changes & (person.action == CODES["unsure"])
    left = changes & ~person.decided
    place = np.searchsorted(EDGES[1:-1], catalogue.confidence, side="right")
    count = [
        np.bincount(place[mask], minlength=len(EDGES) - 1)
        for mask in (changes, right, judged, unsure, left)
    ]
    found = []
    for number in reversed(range(len(EDGES) - 1)):
        total, k, n, open_, rest = (int(counts[number]) for counts in count)
        if total:
            share = wilson(k, n) if n else None
            found.append(Band(EDGES[number], EDGES[number + 1], k, n, open_, rest, share))
    return found


@dataclass(frozen=True)
class Forecast:
    """What accepting every undecided suggestion from `threshold` on would do."""

    threshold: float
    count: int
    judged: int
    """Decisions in the bands that it touches."""
    precision: Estimate
    model: float
    """What the run itself claims: the mean confidence of these rows."""


def left_above(catalogue: Catalogue, person: Person, threshold: float) -> Bools:
    """Undecided suggestions of at least that confidence."""
    return catalogue.changes & ~person.decided & (catalogue.confidence >= threshold)


def forecast(catalogue: Catalogue, person: Person, threshold: float) -> Forecast | None:
    """None if nothing is left there."""
    rows = left_above(catalogue, person, threshold)
    total = int(rows.sum())
    if not total:
        return None
    place = np.searchsorted(EDGES[1:-1], catalogue.confidence, side="right")
    judged = suggestions_judged(catalogue, person)
    right = judged & (person.label == catalogue.suggested)
    size = len(EDGES) - 1
    weight, n, k = (np.bincount(place[m], minlength=size) for m in (rows, judged, right))
    used = weight > 0
    share, n, k = weight[used] / total, n[used], k[used]
    rng = np.random.default_rng(0)
    draws = rng.beta(k + 0.5, n - k + 0.5, (DRAWS, len(n))) @ share
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    estimate = Estimate(float(((k + 0.5) / (n + 1)) @ share), float(low), float(high))
    return Forecast(
        threshold, total, int(n.sum()), estimate, float(catalogue.confidence[rows].mean())
    )
