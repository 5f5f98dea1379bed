"""The user's own data for training: a folder of images, a table or arrays, and a test set."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

from csot._core.errors import DataError, DataWarning, require
from csot.data.columns import TableFeatures
from csot.data.labels import class_names_of, encode
from csot.data.readers.arrays import ArraySplits, read_array_splits
from csot.data.readers.path import read_data
from csot.data.readers.table import Columns
from csot.data.readers.table_file import is_table
from csot.data.readers.tensors import common_size, samples_of, warn_skipped
from csot.data.types import IMAGENET_MEAN, IMAGENET_STD, LabelledData, TestSet, TrainingData

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
    data = _read(train_path, allow_outside, columns, root)
    size = image_size if data.images is None else image_size or common_size(data.images)
    images = data.images
    made = TrainingData(
        name=_name(path),
        train=samples_of(data, size, path),
        labels=encode(data.labels, class_names_of(data), str(path)),
        class_names=class_names_of(data),
        ids=data.ids,
        tests=[],
        mean=None if images is None else IMAGENET_MEAN,
        std=None if images is None else IMAGENET_STD,
        root=None if images is None else data.root,
        images=images,
        table_features=data.table_features,
        source=_source(path, data),
    )
    return replace(
        made,
        tests=[
            _test(
                name,
                _read_test(place, allow_outside, columns, root, data.table_features),
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
        train=samples_of(splits.train, None, path),
        labels=encode(splits.train.labels, names, str(path)),
        class_names=names,
        ids=splits.train.ids,
        tests=tests,
        true_labels=None if true is None else encode(true, names, f"{path}: true_labels"),
        source=_source(path, splits.train),
    )


def _read(
    path: Path,
    allow_outside: bool,
    columns: Columns | None = None,
    root: Path | None = None,
    fitted: TableFeatures | None = None,
) -> LabelledData:
    data = read_data(path, columns, root, allow_outside=allow_outside, fitted=fitted)
    warn_skipped(path, data)
    columns_of = data.table_features
    if fitted is None and columns_of is not None and columns_of.ignored:
        warnings.warn(f"{path}: {data.uses}", DataWarning, stacklevel=4)
    return data


def _read_test(
    path: Path,
    allow_outside: bool,
    columns: Columns | None = None,
    root: Path | None = None,
    fitted: TableFeatures | None = None,
) -> LabelledData:
    """The test data may be of another form than the training data, where columns mean nothing."""
    if is_table(path):
        return _read(path, allow_outside, columns, root, fitted)
    return _read(path, allow_outside)


def _test(
    name: str, data: LabelledData, class_names: list[str], path: Path, size: int | None
) -> TestSet:
    labels = encode(data.labels, class_names, f"{path}: test labels")
    samples = samples_of(data, size, path)
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
