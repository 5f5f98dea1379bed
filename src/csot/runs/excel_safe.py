"""Cells that a spreadsheet would run as a formula: disarmed by an apostrophe, and restored.

Excel, LibreOffice and Google Sheets run a cell of a CSV that starts with `=`, `+`, `-` or `@`, also
after a tab or a line break. Plain numbers are left alone. The change can be undone exactly: a cell
that would be a formula without its leading apostrophes gets one more.
"""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
NUMBER = re.compile(r"'*[+-]?\d+(\.\d*)?([eE][+-]?\d+)?\Z")


def safe_cell(cell: Any) -> Any:
    """Add an apostrophe to text that a spreadsheet would run."""
    return f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell


def restored_cell(cell: Any) -> Any:
    """Inverse of `safe_cell`."""
    is_marked = isinstance(cell, str) and cell.startswith("'") and _is_formula(cell)
    return cell[1:] if is_marked else cell


def safe(frame: pd.DataFrame) -> pd.DataFrame:
    """`safe_cell` for all cells and column names."""
    return _each(frame, safe_cell)


def restored(frame: pd.DataFrame) -> pd.DataFrame:
    """Inverse of `safe`. Names of columns that `safe` cannot have written stay different."""
    return _each(frame, restored_cell)


def _is_formula(cell: str) -> bool:
    return FORMULA.match(cell) is not None and NUMBER.match(cell) is None


def _each(frame: pd.DataFrame, change: Any) -> pd.DataFrame:
    columns: dict[Any, Any] = {}
    for name in frame:
        column = frame[name]
        is_text = column.dtype == object or pd.api.types.is_string_dtype(column.dtype)
        new = change(name)
        while new in columns:
            new = f"'{new}"
        columns[new] = column.map(change) if is_text else column
    return pd.DataFrame(columns, index=frame.index)
