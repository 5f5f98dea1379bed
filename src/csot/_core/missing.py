"""Missing values, as pandas and NumPy write them."""

from __future__ import annotations

from typing import Any

import pandas as pd


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or NA."""
    if isinstance(value, str):  # most cells, and quickly told
        return False
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))
