"""Which class is taken for which: found pairs, the noise matrix, whether mistakes look random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from csot._core.array_types import Floats, Ints
from csot.report.coded_findings import Coded

FAINT = 0.02
"""Share of a class below which no cell of an estimated noise matrix stands out."""
RANDOM = 0.15
"""`association` of given and suggested labels below which mistakes look random."""
EVEN = 0.1
"""Relative spread below which the cells of a noise matrix are all the same to the eye."""
FEWEST = 30
"""Flagged rows, and two per class, that it takes to call mistakes random."""
MOST = 1000
"""Most classes for which this is computed: the counts of more would fill the memory."""


@dataclass(frozen=True)
class ConfusedPair:
    """Flagged rows with one given and one suggested label."""

    given: int
    suggested: int
    count: int


@dataclass(frozen=True, eq=False)
class ConfusionSummary:
    """Cells (K, K) of the drawn classes: lines are true classes, columns given labels."""

    kind: Literal["estimated", "counted", "found"]
    """Shares that the run estimated, shares by the corrected labels, or numbers of flagged rows."""
    cells: Floats
    random: bool
    """No pair of classes is confused much more often than any other."""


def pairs(coded: Coded) -> list[ConfusedPair]:
    """Given and suggested label of the flagged rows, most frequent first."""
    flagged = coded.issue & coded.labelled & (coded.corrected >= 0)
    # An issue that is too uncertain to correct still has a label that the model prefers.
    kept = coded.corrected == coded.given
    suggested = np.where(kept, coded.predicted, coded.corrected)
    flagged &= suggested != coded.given
    both = np.stack([coded.given[flagged], suggested[flagged]], axis=1)
    found, counts = np.unique(both, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [
        ConfusedPair(int(g), int(s), int(n))
        for (g, s), n in zip(found[order], counts[order], strict=True)
    ]


def confusions(
    coded: Coded, summary: Mapping[str, Any], found: list[ConfusedPair], drawn: Ints
) -> ConfusionSummary:
    """What is drawn: the noise matrix, unless nothing in it stands out; then the flagged rows."""
    matrix, estimated = noise_matrix(coded, summary, drawn)
    random = mistakes_look_random(found, len(coded.names))
    outside = matrix * (1 - np.eye(len(matrix)))
    if found and (random or is_even(matrix) or float(outside.max(initial=0.0)) < FAINT):
        return ConfusionSummary("found", found_matrix(found, drawn), random)
    return ConfusionSummary("estimated" if estimated else "counted", matrix, random)


def is_even(matrix: Floats) -> bool:
    """Whether an estimate (C, C) makes every mistake equally likely: it has nothing to show."""
    wrong = matrix[~np.eye(len(matrix), dtype=bool)]
    return len(matrix) >= 3 and bool(wrong.min() > (1 - EVEN) * wrong.max())


def found_matrix(found: list[ConfusedPair], drawn: Ints) -> Floats:
    """Numbers of flagged rows: lines are suggested labels, columns given ones."""
    place = {int(label): position for position, label in enumerate(drawn)}
    cells = np.zeros((len(drawn), len(drawn)))
    for pair in found:
        if pair.given in place and pair.suggested in place:
            cells[place[pair.suggested], place[pair.given]] = pair.count
    return cells


def mistakes_look_random(found: list[ConfusedPair], n_classes: int) -> bool:
    """Whether flagged rows spread over the pairs of classes as chance would have it."""
    total = sum(pair.count for pair in found)
    if not 3 <= n_classes <= MOST or total < max(FEWEST, 2 * n_classes):
        return False
    counts = np.zeros((n_classes, n_classes))
    for pair in found:
        counts[pair.suggested, pair.given] = pair.count
    return association(counts) < RANDOM


def association(counts: Floats) -> float:
    """How far the off-diagonal counts (C, C) are from an even spread along each line, 0 to 1.

    Cramer's V without its bias, against E_ij = r_i / (C - 1) for i != j, r_i the sum of line i:

        V^2 = max(0, X^2 - df) / (n (C - 2)),   X^2 = sum_(i != j) (O_ij - E_ij)^2 / E_ij

    where df = (lines in use) (C - 2) is the expected X^2 of random mistakes.
    """
    size = len(counts)
    observed = counts * (1 - np.eye(size))
    lines = observed.sum(1)
    used = lines > 0
    if size < 3 or not used.any():
        return 0.0
    expected = (lines[:, None] / (size - 1) * (1 - np.eye(size)))[used]
    difference = (observed[used] - expected) ** 2
    statistic = float(np.divide(difference, expected, where=expected > 0, out=difference).sum())
    degrees = float(used.sum()) * (size - 2)
    return float(np.sqrt(max(statistic - degrees, 0.0) / (observed.sum() * (size - 2))))


def noise_matrix(coded: Coded, summary: Mapping[str, Any], drawn: Ints) -> tuple[Floats, bool]:
    """Rows true, columns given, of the classes `drawn`; and whether the run estimated it.

    Without an estimate, the corrected labels stand in for the truth.
    """
    stored = summary.get("noise_matrix")
    known = len(summary["class_names"])
    if stored is not None and len(stored) == known and all(len(row) == known for row in stored):
        # A label that is not a class of the run has no row in the estimate.
        cells = [[stored[i][j] if max(i, j) < known else 0.0 for j in drawn] for i in drawn]
        return np.nan_to_num(np.array(cells, dtype=float).reshape(len(drawn), -1)), True
    both = coded.labelled & (coded.corrected >= 0)
    truth, given = coded.corrected[both], coded.given[both]
    totals = np.bincount(truth, minlength=len(coded.names))[drawn]
    place = np.full(len(coded.names), -1)
    place[drawn] = np.arange(len(drawn))
    inside = (place[truth] >= 0) & (place[given] >= 0)
    counts = np.zeros((len(drawn), len(drawn)))
    np.add.at(counts, (place[truth[inside]], place[given[inside]]), 1.0)
    return counts / np.maximum(totals, 1)[:, None], False
