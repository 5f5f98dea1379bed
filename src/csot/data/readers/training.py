"""The user's own data for training: a folder of images, a table or arrays, and a test set."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from csot._core.errors import DataError, DataWarning, naming, require
from csot.data.labels import class_names_of, encode
from csot.data.readers.arrays import ArraySplits, read_array_splits
from csot.data.readers.path import read_data
from csot.data.readers.table import Columns
from csot.data.readers.table_file import CSV_SUFFIXES, PARQUET_SUFFIXES
from csot.data.samples import ImageFiles, InMemory, Samples
from csot.data.types import IMAGENET_MEAN, IMAGENET_STD, LabelledData, Matrix, TestSet, TrainingData

LARGEST_SIZE = 224
LOOKED_AT = 64
"""Images whose sizes are looked at to choose one for all."""
TRAIN_FOLDERS = ("train", "training")
TEST_FOLDERS = ("test", "val", "valid", "validation")
"""The first of them that is there is the one reported."""


def read_path(
    path: Path,
    test: Path | None = None,
    columns: Columns | None = None,
    root: Path | None = None,
    image_size: int | None = None,
    allow_outside: bool = False,
) -> TrainingData:
    """Training data at `path`; `test` is of the same kind."""
    splits = read_array_splits(path) if columns is None and root is None else None
    if splits is not None:
        return _from_arrays(path, splits, test, allow_outside)
    if path.is_dir() or (columns is not None and columns.image is not None):
        require("PIL.Image", "train", "reading images")  # before a reader names another extra
    train_path, tests = _split_folders(path)
    if test is not None:
        tests = [("test", test)]
    data = _told(train_path, read_data(train_path, columns, root, allow_outside=allow_outside))
    size = image_size if data.images is None else image_size or _common_size(data.images)
    images = data.images
    made = TrainingData(
        name=_name(path),
        train=_samples(data, size),
        labels=encode(data.labels, class_names_of(data), str(path)),
        class_names=class_names_of(data),
        ids=data.ids,
        tests=[],
        mean=None if images is None else IMAGENET_MEAN,
        std=None if images is None else IMAGENET_STD,
        root=None if images is None else data.root,
        images=images,
        source=_source(path, data),
    )
    # The columns that were found in the training table are those of the test table.
    if data.feature_columns is not None:
        columns = replace(columns or Columns(), features=data.feature_columns)
    return replace(
        made,
        tests=[
            _test(
                name,
                _read_test(place, allow_outside, columns, root),
                made.class_names,
                place,
                size,
            )
            for name, place in tests
        ],
    )


def _from_arrays(
    path: Path, splits: ArraySplits, test: Path | None, allow_outside: bool
) -> TrainingData:
    """Features, with the test set in the same file, or in another file or folder."""
    names = class_names_of(splits.train)
    tests = []
    if test is not None:
        tests = [_test("test", _read_test(test, allow_outside), names, test, None)]
    elif splits.test is not None:
        tests = [_test("test", splits.test, names, path, None)]
    true = splits.true_labels
    return TrainingData(
        name=_name(path),
        train=_samples(splits.train, None),
        labels=encode(splits.train.labels, names, str(path)),
        class_names=names,
        ids=splits.train.ids,
        tests=tests,
        true_labels=None if true is None else encode(true, names, f"{path}: true_labels"),
        source=_source(path, splits.train),
    )


def _read_test(
    path: Path, allow_outside: bool, columns: Columns | None = None, root: Path | None = None
) -> LabelledData:
    """The test data may be of another form than the training data, where columns mean nothing."""
    is_table = path.is_file() and path.suffix.lower() in CSV_SUFFIXES | PARQUET_SUFFIXES
    given = (columns, root) if is_table else (None, None)
    return _told(path, read_data(path, *given, allow_outside=allow_outside))


def _told(path: Path, data: LabelledData) -> LabelledData:
    if data.skipped:
        first = data.skipped[0]
        warnings.warn(
            f"{path}: {len(data.skipped):,} left out, first {first.id} ({first.reason})",
            DataWarning,
            stacklevel=3,
        )
    return data


def _test(
    name: str, data: LabelledData, class_names: list[str], path: Path, size: int | None
) -> TestSet:
    labels = encode(data.labels, class_names, f"{path}: test labels")
    samples = _samples(data, size)
    kept = (labels >= 0).nonzero()[:, 0]
    if len(kept) < len(labels):
        if not len(kept):
            raise DataError(f"{path}: no test row has a label")
        warnings.warn(
            f"{path}: {len(labels) - len(kept):,} test rows have no label and are left out",
            DataWarning,
            stacklevel=3,
        )
        samples, labels = samples.subset(kept), labels[kept]
    return TestSet(name, samples, labels)


def _samples(data: LabelledData, size: int | None) -> Samples:
    if data.images is not None:
        return ImageFiles(data.images, size or _common_size(data.images))
    if data.features is not None:
        return InMemory(_float32(data.features, data.root))
    raise DataError(
        "training is on images or features, not on texts: embed them first, and pass an .npz file "
        "with features and labels"
    )


def _float32(features: Matrix, where: Path) -> Tensor:
    with np.errstate(over="ignore"):
        values = np.array(features, dtype=np.float32)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).all(1))[0])
        raise DataError(f"{where}: the features of row {row} (from 0) are too large for float32")
    return torch.from_numpy(values)


def _common_size(paths: Sequence[Path]) -> int:
    """The median shorter side of some images spread over the list, at most 224 pixels."""
    image_module = require("PIL.Image", "train", "reading images")
    sides = []
    for path in paths[:: max(1, len(paths) // LOOKED_AT)][:LOOKED_AT]:
        with naming(path, "a readable image", kind=DataError), image_module.open(path) as image:
            sides.append(min(image.size))
    return int(min(LARGEST_SIZE, np.median(sides)))


def _split_folders(path: Path) -> tuple[Path, list[tuple[str, Path]]]:
    """`path` itself, or its folders `train` and `test` or `val`.

    A class may be called `train` as well; but then it holds images, and not folders.
    """
    if not path.is_dir():
        return path, []
    folders = {entry.name.lower(): entry for entry in path.iterdir() if entry.is_dir()}
    train = next((folders[name] for name in TRAIN_FOLDERS if name in folders), None)
    tests = [(name, folders[name]) for name in TEST_FOLDERS if name in folders]
    if train is None or not any(entry.is_dir() for entry in train.iterdir()):
        return path, []
    return (train, tests) if tests or len(folders) == 1 else (path, [])


def _name(path: Path) -> str:
    return path.resolve().name if path.is_dir() else path.stem


def _source(path: Path, data: LabelledData) -> dict[str, str]:
    return {
        "kind": data.kind,
        "path": str(path.resolve()),
        "root": str(data.root.resolve()),
    }
