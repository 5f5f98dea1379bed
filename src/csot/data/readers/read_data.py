"""One way to read data for cleaning, training and predicting: whatever the data is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from csot._core.errors import DataError, listed
from csot._core.pictures import fault
from csot.data.columns import TableFeatures
from csot.data.labels import check_classes, resolve_variants
from csot.data.readers.arrays import is_array_folder, read_arrays
from csot.data.readers.folder import read_image_folder
from csot.data.readers.labelled_table import Columns, Reading, from_table, read_table, settle
from csot.data.readers.table_file import READ, TableFile, is_table
from csot.data.types import LabelledData

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
FILE_NAME = "file_name"
"""The column of a Hugging Face image folder that names the images."""
LABEL_NAMES = ("label", "labels", "class", "category", "target")


def read_data(
    source: Any,
    columns: Columns | None = None,
    root: Path | None = None,
    check: Callable[[Path], str | None] = fault,
    labelled: bool = True,
    allow_outside: bool = False,
    *,
    fitted: TableFeatures | None = None,
    merge_variants: bool = False,
) -> LabelledData:
    """Samples and their labels, from a path or from a table in memory.

    Parameters
    ----------
    source : path, pandas.DataFrame or datasets.Dataset
        A path names a folder of images, with one sub-folder per class or a `metadata.csv`; a
        table; an .npz file; or a folder of .npy files.
    columns : Columns, optional
        Names of the columns of a table, by role.
    root : Path, optional
        Folder that image paths of a table are relative to; by default the folder of the table.
    check : callable, default=fault
        Says what is wrong with an image, or None; it may use a cache to avoid decoding.
    labelled : bool, default=True
        If False, labels may be missing or all the same, and images may lie in no class folder.
    allow_outside : bool, default=False
        Whether images outside of the data folder are read.
    fitted : TableFeatures, optional
        How the columns of a table become features; else it is learned from the table.
    merge_variants : bool, default=False
        Whether labels that differ only by case or spaces become one; else a warning names them.
    """
    data = _read(source, columns or Columns(), root, check, labelled, allow_outside, fitted)
    data = resolve_variants(data, merge_variants)
    if labelled:
        where = "the table" if is_frame(source) else str(source)
        if data.label_column is not None:
            where += f": column {data.label_column!r}"
        elif data.kind == "arrays":
            where += ": labels"
        check_classes(data.labels if data.votes is None else data.votes["label"].to_numpy(), where)
    return data


def _read(
    source: Any,
    columns: Columns,
    root: Path | None,
    check: Callable[[Path], str | None],
    labelled: bool,
    allow_outside: bool,
    fitted: TableFeatures | None,
) -> LabelledData:
    if is_frame(source):
        reading = Reading(root or Path.cwd(), check, labelled, allow_outside, fitted)
        return read_frame(source, columns, reading)
    path = Path(source)
    if not path.exists():
        raise DataError(f"{path} does not exist; pass a folder of images, a table or an .npz file")
    reading = Reading(root or path.parent, check, labelled, allow_outside, fitted)
    if is_table(path):
        return read_table(path, columns, reading)
    if path.is_dir() and not is_array_folder(path):
        described = find_metadata(path, columns, labelled)
        if described is not None:
            return read_table(*described, replace(reading, root=root or path))
    if columns != Columns() or root is not None:
        raise DataError(
            f"{path} is not a table: `label`, `text`, `image`, `id`, `group`, `features`, "
            "`annotator` and `root` are for CSV, JSON lines and Parquet files"
        )
    if path.is_dir() and not is_array_folder(path):
        return read_image_folder(path, check, labelled, allow_outside)
    if path.is_dir() or path.suffix.lower() == ".npz":
        return read_arrays(path, labelled)
    raise DataError(
        f"{path}: files of the kind {path.suffix.lower() or 'without an ending'!r} are not read; "
        f"pass a folder of images, {READ}"
    )


def find_metadata(folder: Path, columns: Columns, labelled: bool) -> tuple[Path, Columns] | None:
    """The table of a Hugging Face image folder, and its columns; None where it has none.

    Without a label column of its own, the sub-folders are the classes, and it is not used.
    """
    path = next((folder / name for name in METADATA if (folder / name).is_file()), None)
    if path is None:
        return None
    names = TableFile(path).names
    if FILE_NAME not in names:
        return None
    label = columns.label
    if label is None:
        others = [name for name in names if name != FILE_NAME]
        known = [name for name in others if name.lower() in LABEL_NAMES]
        label = next(iter(known or (others if len(others) == 1 else [])), None)
    if label is None and (columns == Columns() or labelled):
        return None
    image = columns.image or FILE_NAME
    identity = columns.id or (None if columns.annotator else image)
    return path, replace(columns, label=label, image=image, id=identity)


FRAME = "the DataFrame"
DATASET = "the Dataset"


def is_frame(source: object) -> bool:
    """Whether it is a table in memory. `datasets` need not be installed."""
    return isinstance(source, pd.DataFrame) or _is_dataset(source) or _are_splits(source)


def read_frame(source: Any, columns: Columns, reading: Reading) -> LabelledData:
    """The rows as samples. Ids are the index of a `DataFrame` unless it only counts the rows."""
    if _are_splits(source):
        raise DataError(f"the data holds splits ({listed(source)}); pass one of them")
    if _is_dataset(source):
        table, columns = _from_dataset(source, columns)
        return _read_table(table, columns, DATASET, reading)
    return _read_table(source.copy(deep=False), columns, FRAME, reading)


def _read_table(
    table: pd.DataFrame, columns: Columns, where: str, reading: Reading
) -> LabelledData:
    table.columns = [str(name) for name in table.columns]
    if table.columns.has_duplicates:
        raise DataError(f"{where} has two columns of one name: rename one of them")
    if table.empty:
        raise DataError(f"{where} has no rows")
    counts_rows = isinstance(table.index, pd.RangeIndex) and table.index.equals(
        pd.RangeIndex(len(table))
    )
    name = "id" if table.index.name is None else str(table.index.name)
    if columns.id is None and not counts_rows and name not in table.columns:
        table = table.reset_index(names=name)
        columns = replace(columns, id=name)
    names = [str(name) for name in table.columns]
    table = table.reset_index(drop=True)
    return from_table(table, settle(columns, names, where, reading.labelled), where, reading)


def _is_dataset(source: object) -> bool:
    return hasattr(source, "to_pandas") and hasattr(source, "features")


def _are_splits(source: object) -> bool:
    return (
        isinstance(source, Mapping)
        and bool(source)
        and all(_is_dataset(part) for part in source.values())
    )


def _from_dataset(source: Any, columns: Columns) -> tuple[pd.DataFrame, Columns]:
    """Numbers of classes become their names, and images the paths of their files."""
    kinds = {name: type(feature).__name__ for name, feature in source.features.items()}
    labels = [name for name, kind in kinds.items() if kind == "ClassLabel"]
    images = [name for name, kind in kinds.items() if kind == "Image"]
    if columns.label is None and len(labels) == 1:
        columns = replace(columns, label=labels[0])
    if len(images) == 1 and columns == Columns(label=columns.label, id=columns.id):
        columns = replace(columns, image=images[0])
    plain = source.with_format(None)
    table: pd.DataFrame = plain.to_pandas()
    for name in labels:
        words = source.features[name].names
        table[name] = pd.Series([_class_name(cell, words) for cell in table[name]], dtype=object)
    for name in images:
        table[name] = pd.Series([_image_path(cell) for cell in table[name]], dtype=object)
    if columns.image in images and not any(map(_is_file, table[columns.image])):
        raise DataError(
            f"the images of column {columns.image!r} are not files: save them into a folder, one "
            "sub-folder per class, and pass that folder"
        )
    return table, columns


def _class_name(cell: Any, names: list[str]) -> str | None:
    return names[int(cell)] if pd.notna(cell) and 0 <= int(cell) < len(names) else None


def _image_path(cell: Any) -> str:
    path = cell.get("path") if isinstance(cell, dict) else cell
    return path if isinstance(path, str) else ""


def _is_file(path: Any) -> bool:
    return bool(path) and Path(path).is_file()
