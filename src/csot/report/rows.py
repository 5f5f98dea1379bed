"""Which rows the report shows, and what it shows of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from csot._core.pictures import Containment
from csot.report.coded_findings import Bools, Coded, Ints
from csot.report.thumbnails import Thumbnails, thumbnails
from csot.runs import Run, findings
from csot.runs.oddities import Oddities
from csot.runs.own_table import read_cells

TEXT_LIMIT = 400
ID_LIMIT = 300
CELL_LIMIT = 80
IMAGE_BUDGET = 10_000_000
TEXT_BUDGET = 600_000
COLUMNS = 16
"""Columns of a table that are shown."""
PER_PAIR = 5
"""Rows kept of every pair of labels, so that a filter for a rare pair finds some."""


def suspicion_order(coded: Coded) -> Ints:
    """All rows, the most suspicious first."""
    return findings.suspicion_order(coded.issue, coded.score, coded.labelled)


def select_rows(coded: Coded, max_rows: int, odd: Oddities | None = None) -> Ints:
    """At most ``max_rows`` rows, the most suspicious first.

    Conflicts are always shown, up to a quarter of all; then come the first rows of each pair of
    labels, of the uncertain, of the rows without a label and of those with a note. The rest, at
    least half, goes to the most suspicious.
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

    if odd is not None:
        whole = [rows for rows in odd.conflicts() if len(rows) <= max_rows // 4]
        ends = np.cumsum([len(rows) for rows in whole])
        for rows in whole[: int(np.searchsorted(ends, max_rows // 4, side="right"))]:
            take(rows, len(rows))
        take(among(odd.stranger), share)
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


@dataclass(frozen=True, eq=False)
class ShownRows:
    """The columns that the page's script reads, and what it could not get."""

    data: dict[str, Any]
    medium: str
    """What a row is shown as: image, text or row."""
    pictures: Thumbnails
    n_columns: int
    """Columns of the table; only the first are shown."""


def show_rows(
    run: Run, coded: Coded, findings: pd.DataFrame, rows: Ints, allowed: Containment
) -> ShownRows:
    """Columns of ``rows``. Scores and confidences are whole thousandths."""
    ids = findings.index[rows]
    used = dict.fromkeys(["", *(coded.notes[row] for row in rows)])
    notes = {note: i for i, note in enumerate(used)}
    data: dict[str, Any] = {
        "id": [clip(str(value), ID_LIMIT) for value in ids],
        "given": coded.given[rows].tolist(),
        "predicted": coded.predicted[rows].tolist(),
        "corrected": coded.corrected[rows].tolist(),
        "issue": coded.issue[rows].astype(int).tolist(),
        "score": np.rint(np.nan_to_num(coded.score[rows], nan=-1) * 1000).astype(int).tolist(),
        "confidence": np.rint(coded.confidence[rows] * 1000).astype(int).tolist(),
        "status": coded.status[rows].tolist(),
        "note": [notes[coded.notes[row]] for row in rows],
        "notes": [clip(note, TEXT_LIMIT) for note in notes],
        "reason": [clip(unbroken(coded.reasons[row]), TEXT_LIMIT) for row in rows],
        "text": [],
        "image": [],
        "columns": [],
        "cells": [],
    }
    samples = run.read_samples()
    pictures = Thumbnails([], 0, 0)
    if samples is not None and "text" in samples:
        limit = max(min(TEXT_LIMIT, TEXT_BUDGET // max(len(rows), 1)), 40)
        texts = samples["text"].reindex(ids).fillna("").tolist()
        data["text"] = [clip(text, limit) for text in texts]
    if samples is not None and "image" in samples:
        names = samples["image"].reindex(ids).fillna("").tolist()
        pictures = thumbnails(names, allowed, IMAGE_BUDGET)
        data["image"] = pictures.urls
    n_columns = 0
    if not data["text"] and not data["image"]:
        n_columns = _add_cells(data, run, [str(value) for value in ids])
    medium = "image" if any(data["image"]) else "text" if any(data["text"]) else "row"
    return ShownRows(data, medium, pictures, n_columns)


def _add_cells(data: dict[str, Any], run: Run, ids: list[str]) -> int:
    """The first columns of the user's own table; returns how many there are."""
    table = read_cells(run, ids, None)
    if table is None:
        return 0
    shown = table.iloc[:, :COLUMNS]
    limit = min(CELL_LIMIT, max(TEXT_BUDGET // max(shown.size, 1), 8))
    data["columns"] = [clip(str(name), CELL_LIMIT) for name in shown.columns]
    data["cells"] = [[clip(cell, limit) for cell in row] for row in shown.to_numpy().tolist()]
    return len(table.columns)


def unbroken(text: str) -> str:
    """A number and its per cent sign stay on one line."""
    return text.replace(" %", "\u00a0%")


def clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
