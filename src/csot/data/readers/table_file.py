"""A table from disk, cell by cell as the user wrote it: CSV, JSON lines or Parquet."""

from __future__ import annotations

import gzip
import io
import json
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pandas as pd

from csot._core.errors import DataError, FileError, clip, listed, reason, require
from csot._core.files import check_expansion, check_file, read_gzip

CSV_SUFFIXES = frozenset({".csv", ".tsv", ".txt"})
JSON_SUFFIXES = frozenset({".jsonl", ".ndjson"})
PARQUET_SUFFIXES = frozenset({".parquet", ".pq"})
PACKED = ".gz"
READ = ".csv, .tsv, .jsonl (or these with .gz), .parquet or .npz"
is_numeric = pd.api.types.is_numeric_dtype
SEPARATORS = ",;\t|"
MOST_COLUMNS = 50_000
LONGEST_HEADER = 4 << 20
CELL_BYTES = 8
"""Least number of bytes of a cell in memory."""


def table_suffix(path: Path) -> str:
    """`.csv` for `t.csv` and `t.csv.gz`; empty if the name does not end like a table."""
    name = path.name.lower()
    plain = Path(name.removesuffix(PACKED)).suffix
    is_packed = name.endswith(PACKED)
    known = CSV_SUFFIXES | JSON_SUFFIXES | (frozenset() if is_packed else PARQUET_SUFFIXES)
    return plain if plain in known else ""


def is_table(path: Path) -> bool:
    """Whether it is a file that is read as a table."""
    return bool(table_suffix(path)) and path.is_file()


UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
"""How a Parquet file of pandas calls an index without a name."""


class TableFile:
    """The columns of a table; rows are read on access."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: pd.DataFrame | None = None
        self._form: dict[str, Any] = {}
        with _explained(path):
            self.names = self._read_names()
        for name, count in Counter(self.names).items():
            if count > 1:
                raise DataError(
                    f"{path} has the column {clip(repr(name))} twice: rename one of them"
                )

    def load(self, numeric: Collection[str] = ()) -> pd.DataFrame:
        """Every row. In a CSV, cells outside the `numeric` columns stay the text they are, so that
        `007` and `NA` survive; a `numeric` column with a cell that is not a number stays text too.
        """
        with _explained(self.path):
            table = self._read(numeric)
        table.columns = [str(name) for name in table.columns]
        if table.columns.has_duplicates:
            raise DataError(f"{self.path} has two columns of one name: rename one of them")
        if table.empty:
            raise DataError(f"{self.path} has a header but no rows")
        return table

    def _read_names(self) -> list[str]:
        if _is_parquet(self.path):
            parquet = require("pyarrow.parquet", "parquet", f"reading {self.path.name}")
            return [str(name) for name in parquet.read_schema(self.path).names]
        if table_suffix(self.path) in JSON_SUFFIXES:
            self._records = _read_records(self.path)
            return [str(name) for name in self._records.columns]
        # Read as a row: pandas would rename a column that is there twice.
        self._form = _form(self.path)
        with _opened(self.path) as file:
            header = pd.read_csv(file, nrows=1, header=None, dtype=str, **self._form)
        # A column without a name gets the one that pandas will give it.
        return [str(name) or f"Unnamed: {k}" for k, name in enumerate(header.iloc[0])]

    def _read(self, numeric: Collection[str]) -> pd.DataFrame:
        if self._records is not None:
            return self._records.copy()
        if _is_parquet(self.path):
            _check_parquet(self.path)
            table = pd.read_parquet(self.path, engine="pyarrow")
            # A named index is a column like any other.
            is_named = any(name is not None for name in table.index.names)
            table = table.reset_index(drop=not is_named)
            self._check_metadata(table)
            for name in table.columns[[not is_numeric(dtype) for dtype in table.dtypes]]:
                table[name].to_numpy(dtype=object)  # texts are decoded, so that wrong ones show
            return table
        text = {name: str for name in self.names if name not in numeric}
        source: Any = io.BytesIO(read_gzip(self.path)) if _is_packed(self.path) else self.path
        found: pd.DataFrame = pd.read_csv(source, dtype=text, low_memory=False, **self._form)
        return found

    def _check_metadata(self, table: pd.DataFrame) -> None:
        """pandas names the columns by metadata of its own, which may be of another table."""
        held = {str(name) for name in table.columns}
        lost = [name for name in self.names if name not in held and not UNNAMED_INDEX.match(name)]
        if lost:
            raise DataError(
                f"{self.path}: its pandas metadata do not name {listed(lost)}, which it has; write "
                "the file again"
            )


def _is_parquet(path: Path) -> bool:
    return table_suffix(path) in PARQUET_SUFFIXES


def _is_packed(path: Path) -> bool:
    return path.name.lower().endswith(PACKED)


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if _is_packed(path) else open(path, "rb")  # type: ignore[return-value]


def _read_records(path: Path) -> pd.DataFrame:
    """One JSON object per line; a key that a line lacks is a missing cell."""
    content = read_gzip(path) if _is_packed(path) else path.read_bytes()
    rows = []
    for number, line in enumerate(content.decode("utf-8-sig").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: not JSON ({reason(error)})") from error
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number}: an object with a key per column is needed")
        rows.append(row)
    if not rows:
        raise DataError(f"{path} has no rows")
    columns = dict.fromkeys(key for row in rows for key in row)
    if len(columns) > MOST_COLUMNS or len(columns) * len(rows) * CELL_BYTES > max(
        1 << 28, 100 * len(content)
    ):
        raise DataError(
            f"{path} has {len(columns):,} different keys in {len(rows):,} lines: too many for a "
            "table"
        )
    return pd.DataFrame({key: pd.Series([row.get(key) for row in rows]) for key in columns})


def _check_parquet(path: Path) -> None:
    """Runs of equal values take no room in the file, and all of it in memory."""
    facts = require("pyarrow.parquet", "parquet", f"reading {path.name}").read_metadata(path)
    cells = facts.num_rows * max(facts.num_columns, 1) * CELL_BYTES
    groups = (facts.row_group(number) for number in range(facts.num_row_groups))
    unpacked = sum(max(group.total_byte_size, 0) for group in groups)
    check_expansion(path, max(cells, unpacked), path.stat().st_size)


def _form(path: Path) -> dict[str, Any]:
    """How the file is to be read: the separator is the most frequent one in its first line."""
    with _opened(path) as file:
        start = file.readline(LONGEST_HEADER)
    header = start.decode("utf-8-sig")
    columns = max(header.count(separator) for separator in SEPARATORS)
    if columns > MOST_COLUMNS or len(start) == LONGEST_HEADER:
        raise DataError(
            f"{path} has more than {MOST_COLUMNS:,} columns, or {LONGEST_HEADER:,} bytes in its "
            "first line: save it as Parquet, or its numbers as .npy"
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
    except (DataError, ImportError):
        raise
    except FileError as error:
        raise DataError(str(error)) from error
    except Exception as error:  # Parquet's metadata can be wrong in any way
        kind = {".parquet": "Parquet", ".pq": "Parquet"}.get(table_suffix(path), "CSV")
        kind = "JSON lines" if table_suffix(path) in JSON_SUFFIXES else kind
        raise DataError(f"{path} is not a readable {kind} file: {reason(error, path)}") from error
