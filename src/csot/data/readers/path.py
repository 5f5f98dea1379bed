"""One door for every kind of input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from csot._core.errors import DataError
from csot._core.pictures import fault
from csot.data.readers.arrays import is_array_folder, read_array_folder, read_npz
from csot.data.readers.folder import read_image_folder
from csot.data.readers.table import Columns, read_table
from csot.data.readers.table_file import CSV_SUFFIXES, PARQUET_SUFFIXES
from csot.data.types import LabelledData


def read_data(
    path: Path,
    columns: Columns | None = None,
    root: Path | None = None,
    check: Callable[[Path], str | None] = fault,
    labelled: bool = True,
    allow_outside: bool = False,
) -> LabelledData:
    """What `path` is: a folder of images or arrays, a table, or an .npz file.

    Unless it has to be `labelled`, labels may be missing or all the same. Images outside of the
    data folder are read only with `allow_outside`.
    """
    columns = columns or Columns()
    if not path.exists():
        raise DataError(f"{path} does not exist; pass a folder of images, a table or an .npz file")
    suffix = path.suffix.lower()
    if path.is_file() and suffix in CSV_SUFFIXES | PARQUET_SUFFIXES:
        return read_table(path, columns, root, check, labelled, allow_outside)
    if columns != Columns() or root is not None:
        raise DataError(
            f"{path} is no table: --label, --text, --image, --id, --group, --features, --annotator "
            "and --root are for CSV and Parquet files"
        )
    if path.is_dir():
        if is_array_folder(path):
            return read_array_folder(path, labelled)
        return read_image_folder(path, check, labelled, allow_outside)
    if suffix == ".npz":
        return read_npz(path, labelled)
    raise DataError(
        f"{path}: files of the kind {suffix or 'without an ending'!r} are not read; pass a folder "
        "of images, .csv, .tsv, .parquet or .npz"
    )
