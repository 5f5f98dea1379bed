"""The user's own data for training: a folder of images, a table or arrays, and a test set.

`samples_of` turns data that was read into the samples that a network takes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from csot._core.errors import DataError, DataWarning, naming, require
from csot._core.pictures import fault
from csot.data.columns import TableFeatures
from csot.data.labels import class_names_of, encode
from csot.data.readers.arrays import ArraySplits, read_array_splits
from csot.data.readers.labelled_table import Columns
from csot.data.readers.read_data import read_data
from csot.data.readers.table_file import is_table
from csot.data.samples import ImageFiles, InMemory, Samples
from csot.data.types import IMAGENET_MEAN, IMAGENET_STD, LabelledData, Matrix, TestSet, TrainingData

LARGEST_SIZE = 224
SAMPLED = 64
"""Images whose sizes decide on one for all."""


def samples_of(
    data: LabelledData, size: int | None, where: str | Path, cache: Path | None = None
) -> Samples:
    """Images of `size` pixels, else of their common size; or features.

    Scaled images are kept in the folder `cache`, if there is one.

    Columns of a table that are all plain numbers are left as they are; others are scaled.
    """
    if data.texts is not None:
        raise DataError(
            f"{where} holds texts, which are trained on as features: leave out the network"
        )
    if data.images is not None:
        if data.features is not None:
            raise DataError(
                f"{where}: training is on images or on columns, not both: leave out `features`"
            )
        return ImageFiles(data.images, size or common_size(data.images), cache)
    assert data.features is not None
    columns = data.table_features
    is_scaled = columns is not None and not columns.is_plain
    features = columns.scale(data.features) if columns and is_scaled else data.features
    return InMemory(to_float32(features, where))


def to_float32(features: Matrix, where: str | Path) -> Tensor:
    """An error names the first row that does not fit."""
    with np.errstate(over="ignore"):
        values = np.array(features, dtype=np.float32)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).all(1))[0])
        raise DataError(f"{where}: the features of row {row} (from 0) are too large for float32")
    return torch.from_numpy(values)


def common_size(paths: Sequence[Path]) -> int:
    """The median shorter side of some images spread over the list, at most 224 pixels."""
    image_module = require("PIL.Image", "train", "reading images")
    sides = []
    for path in paths[:: max(1, len(paths) // SAMPLED)][:SAMPLED]:
        with naming(path, "a readable image", kind=DataError), image_module.open(path) as image:
            sides.append(min(image.size))
    return int(min(LARGEST_SIZE, np.median(sides)))


def warn_skipped(where: str | Path, data: LabelledData) -> None:
    """Say how many samples were left out, and why the first one was."""
    if data.skipped:
        first = data.skipped[0]
        warnings.warn(
            f"{where}: {len(data.skipped):,} left out, first {first.id} ({first.reason})",
            DataWarning,
            stacklevel=4,
        )


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
    cache: Path | None = None,
) -> TrainingData:
    """Training data at `path`; `test` is of the same kind. Scaled images are kept in `cache`."""
    splits = read_array_splits(path) if columns is None and root is None else None
    if splits is not None:
        return _from_arrays(path, splits, test, allow_outside)
    if path.is_dir() or (columns is not None and columns.image is not None):
        require("PIL.Image", "train", "reading images")  # before a reader names another extra
    sets = read_sets(path, test, columns, root, allow_outside)
    images = sets.train.images
    size = image_size if images is None else image_size or common_size(images)
    return assemble(
        sets,
        samples_of(sets.train, size, path, cache),
        [samples_of(data, size, place, cache) for _, place, data in sets.tests],
        mean=None if images is None else IMAGENET_MEAN,
        std=None if images is None else IMAGENET_STD,
    )


@dataclass(frozen=True)
class Sets:
    """What was read at a path: the training set, and test sets with their names and paths."""

    path: Path
    train: LabelledData
    tests: list[tuple[str, Path, LabelledData]]


def read_sets(
    path: Path,
    test: Path | None = None,
    columns: Columns | None = None,
    root: Path | None = None,
    allow_outside: bool = False,
    check: Callable[[Path], str | None] = fault,
) -> Sets:
    """The training set at `path` and its test sets; `test` is one of the same kind."""
    train_path, tests = _split_folders(path)
    if test is not None:
        tests = [("test", test)]
    train = _read(train_path, allow_outside, columns, root, check=check)
    fitted = train.table_features
    read = [
        (name, place, _read_test(place, allow_outside, columns, root, fitted))
        for name, place in tests
    ]
    return Sets(path, train, read)


def assemble(sets: Sets, train: Samples, tests: Sequence[Samples], **more: Any) -> TrainingData:
    """Training data of what was read, and of the samples made of it."""
    data, names = sets.train, class_names_of(sets.train)
    return TrainingData(
        name=_name(sets.path),
        train=train,
        labels=encode(data.labels, names, str(sets.path)),
        class_names=names,
        ids=data.ids,
        tests=[
            _test(name, found, samples, names, place)
            for (name, place, found), samples in zip(sets.tests, tests, strict=True)
        ],
        root=None if data.images is None else data.root,
        images=data.images,
        texts=data.texts,
        table_features=data.table_features,
        uses=data.uses,
        votes=data.votes,
        source=source_of(sets.path, data),
        **more,
    )


def _from_arrays(
    path: Path, splits: ArraySplits, test: Path | None, allow_outside: bool
) -> TrainingData:
    """Features, with the test set in the same file, or in another file or folder."""
    names = class_names_of(splits.train)
    tests = []
    if test is not None:
        found = _read_test(test, allow_outside)
        tests = [_test("test", found, samples_of(found, None, test), names, test)]
    elif splits.test is not None:
        tests = [_test("test", splits.test, samples_of(splits.test, None, path), names, path)]
    true = splits.true_labels
    return TrainingData(
        name=_name(path),
        train=samples_of(splits.train, None, path),
        labels=encode(splits.train.labels, names, str(path)),
        class_names=names,
        ids=splits.train.ids,
        tests=tests,
        true_labels=None if true is None else encode(true, names, f"{path}: true_labels"),
        source=source_of(path, splits.train),
    )


def _read(
    path: Path,
    allow_outside: bool,
    columns: Columns | None = None,
    root: Path | None = None,
    fitted: TableFeatures | None = None,
    check: Callable[[Path], str | None] = fault,
) -> LabelledData:
    data = read_data(path, columns, root, check, allow_outside=allow_outside, fitted=fitted)
    warn_skipped(path, data)
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
    name: str, data: LabelledData, samples: Samples, class_names: list[str], path: Path
) -> TestSet:
    labels = encode(data.labels, class_names, f"{path}: test labels")
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


def source_of(path: Path, data: LabelledData) -> dict[str, str]:
    """Where the data is, as in the summary of a run."""
    return {
        "kind": data.kind,
        "path": str(path.resolve()),
        "root": str(data.root.resolve()),
    }
