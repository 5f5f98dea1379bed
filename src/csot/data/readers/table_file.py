"""A table from disk, cell by cell as the user wrote it."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from csot._core.errors import DataError, FileError, clip, reason, require
from csot._core.files import check_expansion, check_file

CSV_SUFFIXES = frozenset({".csv", ".tsv", ".txt"})
PARQUET_SUFFIXES = frozenset({".parquet", ".pq"})
is_numeric = pd.api.types.is_numeric_dtype
SEPARATORS = ",;\t|"
MOST_COLUMNS = 50_000
LONGEST_HEADER = 4 << 20
CELL_BYTES = 8
"""In memory, at least."""


def column_names(path: Path) -> list[str]:
    """The header, without reading the rows."""
    with _explained(path):
        if _is_parquet(path):
            parquet = require("pyarrow.parquet", "parquet", f"reading {path.name}")
            names = [str(name) for name in parquet.read_schema(path).names]
        else:
            # Read as a row: pandas would rename a column that is there twice.
            header = pd.read_csv(path, nrows=1, header=None, dtype=str, **_form(path))
            names = [str(name) for name in header.iloc[0]]
    for name, count in Counter(names).items():
        if count > 1:
            raise DataError(f"{path} has the column {clip(repr(name))} twice: rename one of them")
    return names


def load_table(path: Path, numeric: Collection[str]) -> pd.DataFrame:
    """Every row. In a CSV, cells outside the `numeric` columns stay the text they are, so that
    `007` and `NA` survive; a `numeric` column with a cell that is no number stays text too."""
    with _explained(path):
        if _is_parquet(path):
            _check_parquet(path)
            table = pd.read_parquet(path, engine="pyarrow")
            # A named index is a column like any other.
            table = (
                table.reset_index()
                if table.index.name is not None
                else table.reset_index(drop=True)
            )
            for name in table.columns[[not is_numeric(dtype) for dtype in table.dtypes]]:
                table[name].to_numpy(dtype=object)  # texts are decoded, so that wrong ones show
        else:
            text = {name: str for name in column_names(path) if name not in numeric}
            table = pd.read_csv(path, dtype=text, low_memory=False, **_form(path))
    table.columns = [str(name) for name in table.columns]
    if table.columns.has_duplicates:
        raise DataError(f"{path} has two columns of one name: rename one of them")
    if table.empty:
        raise DataError(f"{path} has a header but no rows")
    return table


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in PARQUET_SUFFIXES


def _check_parquet(path: Path) -> None:
    """Runs of equal values take no room in the file, and all of it in memory."""
    facts = require("pyarrow.parquet", "parquet", f"reading {path.name}").read_metadata(path)
    cells = facts.num_rows * max(facts.num_columns, 1) * CELL_BYTES
    groups = (facts.row_group(number) for number in range(facts.num_row_groups))
    unpacked = sum(max(group.total_byte_size, 0) for group in groups)
    check_expansion(path, max(cells, unpacked), path.stat().st_size)


def _form(path: Path) -> dict[str, Any]:
    """How the file is to be read: the separator is the most frequent one in its first line."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        header = file.readline(LONGEST_HEADER)
    columns = max(header.count(separator) for separator in SEPARATORS)
    if columns > MOST_COLUMNS or len(header) == LONGEST_HEADER:
        raise DataError(
            f"{path} has more than {MOST_COLUMNS:,} columns, or {LONGEST_HEADER:,} characters in "
            "its first line: save it as Parquet, or its numbers as .npy"
        )
    separator = max(SEPARATORS, key=header.count)
    return {
        "sep": separator,
        "encoding": "utf-8-sig",
        "keep_default_na": False,
        "na_values": [],
        "index_col": False,
    }


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Errors of the parsers as `DataError`."""
    try:
        if check_file(path) == 0:
            raise DataError(f"{path} is empty")
        with warnings.catch_warnings():
            # Cells beyond the header would be dropped with no more than a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield
    except pd.errors.EmptyDataError as error:
        raise DataError(f"{path} is empty") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8, for instance by "
            "iconv -f latin1 -t utf-8"
        ) from error
    except pd.errors.ParserError as error:
        raise DataError(f"{path} is not a regular CSV: {reason(error, path)}") from error
    except pd.errors.ParserWarning as error:
        raise DataError(
            f"{path} has rows with more cells than its header names: check the commas"
        ) from error
    except DataError:
        raise
    except ImportError:
        raise
    except FileError as error:
        raise DataError(str(error)) from error
    except Exception as error:  # Parquet's metadata can be wrong in any way
        what = "Parquet file" if _is_parquet(path) else "CSV file"
        raise DataError(f"{path} is not a readable {what}: {reason(error, path)}") from error
