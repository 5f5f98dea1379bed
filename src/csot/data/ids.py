"""Sample ids: text, unique."""

from __future__ import annotations

from collections.abc import Iterable

from csot.data.cells import cell_text
from csot.data.errors import DataError
from csot.untrusted.errors import clip


def tidy_ids(values: Iterable[object], where: str) -> list[str]:
    """As text; an error names the first empty or repeated id and its rows."""
    ids: list[str] = []
    seen: dict[str, int] = {}
    for row, value in enumerate(values):
        text = cell_text(value).strip()
        if not text:
            raise DataError(f"{where} has no id in row {row} (from 0): fill it in, or leave it out")
        if text in seen:
            raise DataError(
                f"{where} holds the id {clip(repr(text))} twice, in rows {seen[text]} and "
                f"{row} (from 0): ids must be unique"
            )
        seen[text] = row
        ids.append(text)
    return ids
