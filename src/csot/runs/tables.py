"""Tables to CSV and Parquet and back, without losing what hostile text can hold."""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from csot._core.errors import naming
from csot._core.files import atomic_write, check_file
from csot._core.missing import is_missing
from csot.runs.excel_safe import restored, safe
from csot.runs.excel_safe import restored_cell as restored_cell
from csot.runs.excel_safe import safe_cell as safe_cell
from csot.runs.findings import ID

Kind = Literal["boolean", "integer", "float", "text"]
KINDS: tuple[Kind, ...] = ("boolean", "integer", "float", "text")


def kind_of(values: Iterable[Any]) -> Kind:
    """The narrowest kind that holds all values but the missing ones.

    Integers that a missing neighbour turned into floats (3.0 beside 3) are integers. Anything that
    is neither a number nor a boolean, mixtures included, is text.
    """
    seen = [value for value in values if not is_missing(value)]
    booleans = [isinstance(value, bool | np.bool_) for value in seen]
    if not seen or (any(booleans) and not all(booleans)):
        return "text"
    if all(booleans):
        return "boolean"
    if not all(isinstance(value, Real) for value in seen):
        return "text"
    some_integer = any(isinstance(value, Integral) for value in seen)
    return "integer" if some_integer and all(value == value // 1 for value in seen) else "float"


def to_text(value: Any, kind: Kind) -> str:
    """What the CSV holds; the empty string where the value is missing."""
    if is_missing(value):
        return ""
    if kind == "integer":
        return str(int(value))
    return repr(float(value)) if kind == "float" else str(value)


def from_text(text: str, kind: Kind) -> Any:
    """Inverse of `to_text`; None where the text is empty."""
    if text == "":
        return None
    if kind == "boolean":
        return text == "True"
    if kind == "integer":
        return int(text)
    return float(text) if kind == "float" else text


def text_column(values: Iterable[Any], kind: Kind) -> pd.Series[Any]:
    """A column of the values' texts."""
    return pd.Series([to_text(value, kind) for value in values], dtype=object)


def read_column(texts: Iterable[str], kind: Kind) -> pd.Series[Any]:
    """A column of `kind` from its texts, with None for what is missing."""
    found = [from_text(text, kind) for text in texts]
    # Pandas would make floats of integers beside None, and its own text type refuses file names
    # that are not Unicode.
    plain = kind == "text" or any(value is None for value in found) or not found
    return pd.Series(found, dtype=object if plain else None)


def has_parquet() -> bool:
    """Whether pyarrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def write_csv(
    path: Path, frame: pd.DataFrame, *, index: bool = False, excel_safe: bool = False
) -> None:
    """UTF-8, one line per row, missing cells empty. `excel_safe` disarms formulas."""
    if excel_safe:
        frame = safe(frame.reset_index() if index else frame)
        index = False
    with atomic_write(path) as file:
        frame.to_csv(file, index=index, encoding="utf-8", errors="surrogateescape", **_form(frame))


def csv_text(frame: pd.DataFrame, *, excel_safe: bool = False) -> str:
    """What `write_csv` writes."""
    if excel_safe:
        frame = safe(frame)
    text: str = frame.to_csv(index=False, **_form(frame))
    return text


def _form(frame: pd.DataFrame) -> dict[str, Any]:
    # Python's writer leaves a lone carriage return unquoted, where every reader ends the row.
    odd = any(isinstance(cell, str) and "\r" in cell for name in frame for cell in frame[name])
    quoting = csv.QUOTE_NONNUMERIC if odd else csv.QUOTE_MINIMAL
    return {"lineterminator": "\n", "quoting": quoting}


SMALL = 1 << 20
"""Bytes up to which a file is parsed whole rather than twice, for its header and some columns."""


def read_text_csv(
    path: Path,
    *,
    nrows: int | None = None,
    columns: int | None = None,
    always: Callable[[list[str]], str | None] = lambda names: None,
    excel_safe: bool = False,
) -> pd.DataFrame:
    """Every cell as the text in the file: no guessing, and "NA" stays "NA".

    `nrows` and `columns` bound what is read; the column that `always` chooses by the names of all
    of them is read in any case. A file that was written `excel_safe` gives back the cells as they
    were before.
    """
    size = check_file(path)
    wanted = None
    if columns is not None and size > SMALL:
        names = list(read_text_csv(path, nrows=0, excel_safe=excel_safe).columns)
        wanted = _places(names, columns, always(names))
    with naming(path, "a readable CSV file"):
        frame = pd.read_csv(
            path,
            nrows=nrows,
            usecols=wanted,
            dtype=object,
            keep_default_na=False,
            na_filter=False,
            index_col=False,
            encoding="utf-8",
            encoding_errors="surrogateescape",
        )
    found = restored(frame) if excel_safe else frame
    if columns is not None and wanted is None and len(found.columns) > columns:
        names = list(found.columns)
        found = found.iloc[:, _places(names, columns, always(names))]
    return found


def _places(names: list[str], columns: int, always: str | None) -> list[int]:
    return [place for place, name in enumerate(names) if place < columns or name == always]


def write_parquet(path: Path, frame: pd.DataFrame) -> None:
    """Parquet by pyarrow, which knows only valid Unicode: other characters become `?`."""
    valid = frame.copy()
    for name in valid:
        column = valid[name]
        if pd.api.types.is_string_dtype(column.dtype):
            cells = [_valid(cell) if isinstance(cell, str) else None for cell in column]
            valid[name] = pd.Series(cells, index=column.index, dtype=object)
    with atomic_write(path) as file:
        valid.to_parquet(file, index=False, engine="pyarrow")


def id_column(index: pd.Index) -> tuple[pd.Series[Any], Kind]:
    """The text of the ids, which must be there and differ, and their kind."""
    if isinstance(index, pd.MultiIndex):
        raise ValueError(f"the index has {index.nlevels} levels: a run needs one id per row")
    if index.hasnans:
        raise ValueError("an id is missing: a run needs one id per row, reset the index")
    kind = kind_of(index)
    ids = [to_text(value, kind) for value in index]
    repeated = pd.Index(ids, dtype=object).duplicated()
    if repeated.any():
        first = ids[int(repeated.argmax())]
        raise ValueError(
            f"{int(repeated.sum())} ids repeat, first {first!r}: "
            f"a run needs one {ID} per row, reset the index"
        )
    if "" in ids:
        raise ValueError("an id is the empty string: a run needs an id for every row")
    return pd.Series(ids, dtype=object), kind


def _valid(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
