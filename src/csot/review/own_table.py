"""The user's own table, as `corrected.csv` holds it, by id."""

from __future__ import annotations

from typing import Any

import pandas as pd

from csot.records.run import CORRECTED_TABLE
from csot.records.tables import read_text_csv
from csot.review.catalogue import Catalogue


def read_own_table(catalogue: Catalogue, columns: int | None = None) -> pd.DataFrame | None:
    """Cells as text, indexed by id; None if the run has no table that fits its findings.

    ``columns`` bounds how many of them are read, from the left; a column of ids is always among
    them.
    """
    path = catalogue.run.path / CORRECTED_TABLE
    if not path.exists():
        return None
    settings = catalogue.summary.get("settings")
    safe = catalogue.run.excel_safe
    names = list(read_text_csv(path, nrows=0, excel_safe=safe).columns)
    key = _id_column(names, settings if isinstance(settings, dict) else {})
    table = read_text_csv(path, columns=columns, always=key, excel_safe=safe)
    ids = [str(row) for row in range(len(table))] if key is None else table[key].str.strip()
    table.index = pd.Index(ids, dtype=object)
    if table.index.has_duplicates or not set(catalogue.ids) <= set(table.index):
        return None
    return table


def _id_column(names: list[str], settings: dict[str, Any]) -> str | None:
    """The column that `csot clean` took the ids from; None if it counted rows."""
    named = settings.get("id")
    if isinstance(named, str) and named in names:
        return named
    label = settings.get("label")
    return next((name for name in names if name.lower() == "id" and name != label), None)
