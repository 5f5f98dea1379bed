"""Inputs to predict: what a network is to be shown, with or without labels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from csot._core.errors import DataError, DataWarning, listed, nearest
from csot._core.pictures import SUFFIXES, Containment, fault
from csot.data.datasets.registry import NAMES, read_training_data
from csot.data.labels import encode, tidy_ids, tidy_labels
from csot.data.readers.arrays import (
    Arrays,
    check_matrix,
    is_array_folder,
    load_array_folder,
    load_npz,
    named,
)
from csot.data.readers.table import Columns, read_table
from csot.data.readers.table_file import CSV_SUFFIXES, PARQUET_SUFFIXES
from csot.data.samples import ImageFiles, InMemory, Kind, Samples
from csot.data.types import LabelledData, Labels, Matrix

ARRAYS = ("features", "labels", "ids", "class_names")


@dataclass(frozen=True)
class Wanted:
    """What a trained network takes, and the classes it knows."""

    kind: Kind
    shape: tuple[int, ...]
    class_names: list[str]


@dataclass(frozen=True)
class Inputs:
    """N inputs of the wanted shape."""

    samples: Samples
    ids: list[str]
    labels: torch.Tensor | None = None
    """int64 (N,), -1 where there is none; None where the data brings no labels."""


def read_inputs(
    data: str | Path,
    wanted: Wanted,
    *,
    columns: Columns | None = None,
    root: Path | None = None,
    data_dir: Path | None = None,
    allow_outside: bool = False,
) -> Inputs:
    """A name stands for its test set; else `data` is the path of images, a table or arrays."""
    path = Path(data)
    if str(data) in NAMES and not path.exists():
        found = _named(str(data), wanted, data_dir, allow_outside)
    elif not path.exists():
        raise DataError(
            f"{data} is neither a path nor one of {listed(NAMES, len(NAMES))}"
            f"{nearest(str(data), NAMES)}"
        )
    elif path.suffix.lower() in CSV_SUFFIXES | PARQUET_SUFFIXES and path.is_file():
        found = _table(path, wanted, columns or Columns(), root, allow_outside)
    elif (columns or Columns()) != Columns() or root is not None:
        raise DataError(f"{path} is no table: --label, --image, --id and --root are for tables")
    elif path.is_dir() and not is_array_folder(path):
        found = _images(path, wanted, allow_outside)
    else:
        found = _arrays(path, wanted)
    _check_shape(str(data), found.samples, wanted)
    return found


def _named(name: str, wanted: Wanted, data_dir: Path | None, allow_outside: bool) -> Inputs:
    known = read_training_data(name, data_dir=data_dir, allow_outside=allow_outside)
    if not known.tests:
        raise DataError(f"{name} has no test set")
    test = known.tests[0]
    _check_shape(name, test.samples, wanted)
    labels = np.array([known.class_names[label] for label in test.labels.tolist()], dtype=object)
    ids = [str(row) for row in range(len(test.samples))]
    return Inputs(test.samples, ids, encode(labels, wanted.class_names, name))


def _table(
    path: Path, wanted: Wanted, columns: Columns, root: Path | None, allow_outside: bool
) -> Inputs:
    if wanted.kind == "images" and columns.image is None:
        raise DataError(
            f"{path} is a table, and {_needs(wanted)}: name the column of their paths with --image"
        )
    read = read_table(path, columns, root, labelled=False, allow_outside=allow_outside)
    if read.features is not None and read.features.shape[1] != wanted.shape[0]:
        chosen = listed(read.feature_columns or [], 5)
        raise DataError(
            f"{path} has {read.features.shape[1]} numeric columns ({chosen}), but {_needs(wanted)}"
            "; name a column of labels with --label, and one of ids with --id"
        )
    _tell_skipped(path, [skipped.id for skipped in read.skipped])
    labels = None if columns.label is None else encode(read.labels, wanted.class_names, str(path))
    return Inputs(_samples(read, wanted), read.ids, labels)


def _samples(read: LabelledData, wanted: Wanted) -> Samples:
    if read.images is not None:
        return ImageFiles(read.images, wanted.shape[-1])
    assert read.features is not None
    return InMemory(_float32(read.features))


def _float32(features: Matrix) -> torch.Tensor:
    return torch.from_numpy(np.array(features, dtype=np.float32))


def _arrays(path: Path, wanted: Wanted) -> Inputs:
    if path.is_dir():
        arrays, held = load_array_folder(path, ARRAYS)
    elif path.suffix.lower() == ".npz":
        arrays, held = load_npz(path, ARRAYS)
    else:
        raise DataError(
            f"{path}: files of this kind are not read; pass a folder of images, .csv, .tsv, "
            ".parquet or .npz"
        )
    if "features" not in arrays:
        raise DataError(
            f"{path} has no array 'features'; it holds {listed(held) or 'nothing'}"
            f"{nearest('features', held)}"
        )
    features = check_matrix(arrays["features"], f"{path}: features")
    for name in ("labels", "ids"):
        if name in arrays and arrays[name].shape != (len(features),):
            raise DataError(
                f"{path}: {name} has shape {arrays[name].shape}; ({len(features)},) is needed"
            )
    ids = tidy_ids(arrays.get("ids", range(len(features))), f"{path}: ids")
    labels = _array_labels(path, arrays)
    codes = None if labels is None else encode(labels, wanted.class_names, f"{path}: labels")
    return Inputs(InMemory(_float32(features)), ids, codes)


def _array_labels(path: Path, arrays: Arrays) -> Labels | None:
    if "labels" not in arrays:
        return None
    labels = tidy_labels(arrays["labels"], f"{path}: labels")
    if "class_names" not in arrays:
        return labels
    return named(labels, [str(name) for name in arrays["class_names"].ravel()], path)


def _images(folder: Path, wanted: Wanted, allow_outside: bool) -> Inputs:
    """All images below the folder. Where its sub-folders are classes, they are the labels."""
    if wanted.kind != "images":
        raise DataError(f"{folder} is a folder of images; {_needs(wanted)}")
    paths: list[Path] = []
    broken: list[str] = []
    allowed = Containment(folder, allow_outside)
    for path in _image_files(folder):
        if allowed.allows(path) and fault(path) is None:
            paths.append(path)
        else:
            broken.append(path.relative_to(folder).as_posix())
    if not paths:
        raise DataError(f"{folder} has no readable image; read are {listed(sorted(SUFFIXES))}")
    _tell_skipped(folder, broken)
    ids = [path.relative_to(folder).as_posix() for path in paths]
    tops = [name.partition("/")[0] if "/" in name else None for name in ids]
    labels = None
    if any(top in wanted.class_names for top in tops):
        labels = encode(np.array(tops, dtype=object), wanted.class_names, f"{folder}: sub-folders")
    return Inputs(ImageFiles(paths, wanted.shape[-1]), ids, labels)


def _image_files(folder: Path) -> list[Path]:
    found = []
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [
            Path(where, name)
            for name in sorted(files)
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES
        ]
    return found


def _tell_skipped(path: Path, skipped: Sequence[str]) -> None:
    if skipped:
        warnings.warn(
            f"{path}: {len(skipped):,} cannot be read and are left out, first {skipped[0]}",
            DataWarning,
            stacklevel=4,
        )


def _check_shape(data: str, samples: Samples, wanted: Wanted) -> None:
    if samples.shape != wanted.shape:
        raise DataError(f"{data} holds {_what(samples.shape)}; {_needs(wanted)}")


def _what(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return f"{shape[0]} features a row"
    return f"images of shape {shape}"


def _needs(wanted: Wanted) -> str:
    return f"the run was trained on {_what(wanted.shape)}"
