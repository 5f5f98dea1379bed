"""Which rows the report shows, what it shows of each, and thumbnails within a budget.

Pictures are data URLs: large ones for the first rows, then smaller ones for as many rows as fit.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from csot._core.array_types import Bools, Ints
from csot._core.errors import clip
from csot._core.pictures import (
    OUTSIDE,
    Containment,
    PictureError,
    decoded,
    has_pillow,
    on_white,
    read_file,
    stretched,
)
from csot.report.coded_findings import Coded
from csot.runs import Run, findings
from csot.runs.findings import VERIFIED
from csot.runs.oddities import Oddities
from csot.runs.source import read_cells

if TYPE_CHECKING:
    from PIL.Image import Image

SIZES = ((288, 72), (192, 68), (128, 64), (96, 60), (64, 50), (40, 40))
"""Longest side in pixels and quality, from the best to the smallest."""
LEAST = 2600
"""Bytes kept back for each row still to come: enough for 96 pixels of most photographs."""
DENSITY = 0.1
"""Bytes per pixel of an easy picture: sizes that would not fit even then are not tried."""
TINY = 48
"""Pictures up to this side are kept without loss if they fit."""
TRANSPARENT = ("LA", "PA", "P", "RGBA")
"""Modes of pixels that may be transparent."""


@dataclass(frozen=True)
class Thumbnails:
    """A data URL per row, empty where there is none, and why some are missing."""

    urls: list[str]
    unreadable: int
    """Missing, broken, or outside of the data folder."""
    left_out: int
    """Readable, but even the smallest size does not fit the budget."""


def thumbnails(names: Sequence[str], allowed: Containment, budget: int) -> Thumbnails:
    """One picture per name in at most `budget` bytes; the first rows get the largest.

    Pictures outside of the data folder are counted in a warning.
    """
    if not has_pillow():
        return Thumbnails([""] * len(names), 0, 0)
    urls: list[str] = []
    unreadable = left_out = outside = 0
    for place, name in enumerate(names):
        to_come = len(names) - place - 1
        room = max(budget - LEAST * to_come, budget // (to_come + 1))
        url: str | None = None
        try:
            url = thumbnail(allowed.find(name), room) if name else None
        except PictureError as error:
            outside += str(error) == OUTSIDE
        unreadable += bool(name) and url is None
        left_out += url == ""
        budget -= len(url or "")
        urls.append(url or "")
    if outside:
        warnings.warn(
            f"{outside:,} pictures lie outside of the data folder and are not in the report; "
            "`allow_outside` puts them in",
            UserWarning,
            stacklevel=2,
        )
    return Thumbnails(urls, unreadable, left_out)


def thumbnail(path: Path, room: int) -> str | None:
    """The largest size of at most `room` bytes, or the empty string if none is.

    None if the file cannot be read: a report must not fail over a broken file.
    """
    from PIL import ImageOps

    try:
        with (
            # JPEG is decoded at a fraction of its size.
            decoded(read_file(path), SIZES[0][0]) as opened,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            image = ImageOps.exif_transpose(opened)
            if image.mode[0] in "IF":  # 16 bits and more
                image = stretched(image)
            image = on_white(image) if image.mode in TRANSPARENT else image.convert("RGB")
            return _fitting(image, room)
    except Exception:  # Pillow's decoders raise nearly anything on a broken file
        return None


def _fitting(image: Image, room: int) -> str:
    if max(image.size) <= TINY:
        url = _data_url(image, "PNG", optimize=True)
        if len(url) <= room:
            return url
    for side, quality in SIZES:
        shown = min(side, max(image.size))
        if side != SIZES[-1][0] and shown**2 * DENSITY > room:
            continue
        image.thumbnail((side, side))
        url = _data_url(image, "JPEG", quality=quality, optimize=True)
        if len(url) <= room:
            return url
    return ""


def _data_url(image: Image, form: str, **options: int) -> str:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    text = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f"data:image/{form.lower()};base64,{text}"


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
    """Select at most `max_rows` rows, the most suspicious first.

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

    @property
    def has_verified(self) -> bool:
        return VERIFIED in self.data["notes"]


def show_rows(
    run: Run, coded: Coded, findings: pd.DataFrame, rows: Ints, allowed: Containment
) -> ShownRows:
    """Columns of `rows`. Scores and confidences are whole thousandths."""
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
