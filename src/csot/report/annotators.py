"""The annotators, as the report shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

LISTED = 200
"""Annotators shown at most: the best half and the worst half of them."""


@dataclass(frozen=True)
class AnnotatorRow:
    """One annotator; shares are None where nothing is known of them."""

    name: str
    quality: float
    low: float
    high: float
    votes: int
    with_consensus: float | None
    with_others: float | None
    worst_class: str
    worst_accuracy: float | None
    confused: str
    confused_as: str


@dataclass(frozen=True)
class Annotators:
    """Best first; ``hidden`` of them, from the middle, are left out."""

    rows: list[AnnotatorRow]
    number: int
    hidden: int
    votes: int
    wrong_votes: int | None


def annotator_section(frame: pd.DataFrame | None, summary: Mapping[str, Any]) -> Annotators | None:
    """From the cells of annotators.csv; None where the labels are of one annotator."""
    if frame is None or frame.empty:
        return None
    rows = [_row(cells) for cells in frame.to_dict(orient="records")]
    shown = rows if len(rows) <= LISTED else [*rows[: LISTED // 2], *rows[-LISTED // 2 :]]
    wrong = summary.get("n_vote_issues")
    return Annotators(
        rows=shown,
        number=len(rows),
        hidden=len(rows) - len(shown),
        votes=sum(row.votes for row in rows),
        wrong_votes=wrong if isinstance(wrong, int) else None,
    )


def _row(cells: Mapping[Any, Any]) -> AnnotatorRow:
    def number(name: str) -> float | None:
        text = cells[name]
        return float(text) if text else None

    return AnnotatorRow(
        name=cells["annotator"],
        quality=float(cells["quality"]),
        low=float(cells["quality_low"]),
        high=float(cells["quality_high"]),
        votes=int(cells["n_votes"]),
        with_consensus=number("agreement_with_consensus"),
        with_others=number("agreement_with_others"),
        worst_class=cells["worst_class"],
        worst_accuracy=number("worst_class_accuracy"),
        confused=cells["confused_class"],
        confused_as=cells["confused_as"],
    )
