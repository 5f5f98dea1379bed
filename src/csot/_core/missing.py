"""Missing values, and cells of a table as text."""

from __future__ import annotations

from typing import Any

import pandas as pd


def is_missing(value: Any) -> bool:
    """None, NaN, NaT or NA."""
    return value is None or bool(pd.api.types.is_scalar(value) and pd.isna(value))


def cell_text(value: object) -> str:
    """Empty where the cell is missing."""
    return "" if is_missing(value) else str(value)
