"""What the report says in numbers, and which rows it shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from csot.report.coded import Bools, Coded, Floats, Ints
from csot.runs import STATUSES
from csot.runs.noise import NoiseEstimate

PER_PAIR = 5
"""Rows kept of every pair of labels, so that a filter for a rare pair finds some."""


def suspicion_order(coded: Coded) -> Ints:
    """All rows: issues first, then by falling doubt; rows without a label last."""
    score = np.where(coded.labelled, coded.score, 2.0)
    return np.lexsort((score, ~(coded.issue & coded.labelled)))


def select_rows(coded: Coded, max_rows: int) -> Ints:
    """At most ``max_rows`` rows, the most suspicious first.

    Three quarters go to the most suspicious. The rest is kept for the first rows of each pair of
    labels, of the uncertain, of the rows without a label and of those with a note.
    """
    order = suspicion_order(coded)
    if len(order) <= max_rows:
        return order
    chosen: dict[int, None] = {}
    share = max(max_rows // 16, 1)

    def take(rows: Ints, limit: int) -> None:
        for row in rows[:limit].tolist():
            chosen.setdefault(row, None)

    def among(mask: Bools) -> Ints:
        return order[mask[order]]

    take(among(coded.has_status("uncertain")), share)
    take(among(~coded.labelled), share)
    take(among(np.array([note != "" for note in coded.notes])), share)
    take(_first_of_pairs(coded, among(coded.issue)), share)
    for row in order.tolist():
        if len(chosen) >= max_rows:
            break
        chosen.setdefault(row, None)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    kept = np.array(list(chosen)[:max_rows], dtype=np.int64)
    return kept[np.argsort(rank[kept])]


def _first_of_pairs(coded: Coded, rows: Ints) -> Ints:
    """The first rows of each pair, round after round: one of each, then a second of each, ..."""
    seen: dict[tuple[int, int], int] = {}
    rounds: list[list[int]] = [[] for _ in range(PER_PAIR)]
    given, corrected = coded.given.tolist(), coded.corrected.tolist()
    for row in rows.tolist():
        pair = (given[row], corrected[row])
        times = seen.get(pair, 0)
        if times < PER_PAIR:
            rounds[times].append(row)
            seen[pair] = times + 1
    return np.array([row for some in rounds for row in some], dtype=np.int64)


# What the report says in numbers.


@dataclass(frozen=True)
class Headline:
    """The counts at the top. ``spread`` is two standard deviations of the expected number."""

    rows: int
    labelled: int
    issues: int
    replaced: int
    """Issues whose label is another one now; the other issues keep theirs."""
    clean: int
    corrected: int
    uncertain: int
    unlabelled: int
    skipped: int
    expected: float
    spread: float
    noise: NoiseEstimate
    informative: bool
    warning: str
    duplicates: int
    duplicate_pairs: int
    duplicate_pairs_differ: int


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


@dataclass(frozen=True)
class Pair:
    """Flagged rows with one given and one suggested label."""

    given: int
    suggested: int
    count: int


def headline(coded: Coded, summary: Mapping[str, Any]) -> Headline:
    """Counts are those of the findings; the noise rate is the run's own estimate if it has one."""
    doubt = coded.doubt
    labelled = int(coded.labelled.sum())
    expected = float(doubt.sum())
    issue = coded.issue & coded.labelled
    noise = NoiseEstimate.of_summary(summary)
    found = summary.get("duplicates")
    duplicates = found if isinstance(found, dict) else {}
    return Headline(
        rows=len(coded.given),
        labelled=labelled,
        issues=int(issue.sum()),
        replaced=int((issue & (coded.corrected != coded.given)).sum()),
        clean=int(coded.has_status("clean").sum()),
        corrected=int(coded.has_status("corrected").sum()),
        uncertain=int(coded.has_status("uncertain").sum()),
        unlabelled=len(coded.given) - labelled,
        skipped=len(summary.get("skipped") or []),
        expected=expected,
        # Rows wrong independently, each with the probability 1 - score.
        spread=2 * float(np.sqrt(np.clip(doubt * (1 - doubt), 0, None).sum())),
        noise=noise or NoiseEstimate(expected / max(labelled, 1)),
        informative=summary.get("informative") is not False,
        warning=str(summary.get("warning") or ""),
        duplicates=int(duplicates.get("rows") or 0),
        duplicate_pairs=int(duplicates.get("pairs") or 0),
        duplicate_pairs_differ=int(duplicates.get("pairs_with_different_labels") or 0),
    )


def pairs(coded: Coded) -> list[Pair]:
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
        Pair(int(g), int(s), int(n)) for (g, s), n in zip(found[order], counts[order], strict=True)
    ]


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


def noise_matrix(coded: Coded, summary: Mapping[str, Any], drawn: Ints) -> tuple[Floats, bool]:
    """Rows true, columns given, of the classes ``drawn``; and whether the run estimated it.

    Without an estimate, the corrected labels stand in for the truth.
    """
    stored = summary.get("noise_matrix")
    known = len(summary["class_names"])
    if stored is not None and len(stored) == known and all(len(row) == known for row in stored):
        # A label that is no class of the run has no row in the estimate.
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


def histogram(coded: Coded, bins: int = 20) -> dict[str, list[int]]:
    """Rows by confidence, for each status."""
    edges = np.linspace(0, 1, bins + 1)
    confidence = np.clip(coded.confidence, 0, 1)
    return {
        name: np.histogram(confidence[coded.has_status(name)], edges)[0].tolist()
        for name in STATUSES
    }
