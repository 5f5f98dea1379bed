"""Which rows the report shows when it cannot show all."""

from __future__ import annotations

import numpy as np

from csot.report.coded import Bools, Coded, Ints

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
