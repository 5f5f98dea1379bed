"""Tables in memory: a pandas `DataFrame`, or a `Dataset` of Hugging Face's package `datasets`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from csot._core.errors import DataError, listed
from csot.data.readers.table import Columns, Reading, from_table, settle
from csot.data.types import LabelledData

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
        return _read(table, columns, DATASET, reading)
    return _read(source.copy(deep=False), columns, FRAME, reading)


def _read(table: pd.DataFrame, columns: Columns, where: str, reading: Reading) -> LabelledData:
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
