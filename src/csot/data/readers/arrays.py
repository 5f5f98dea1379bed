"""An .npz file, or a folder of .npy files: features, labels and what may go with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from csot._core.errors import DataError, FileError, clip, listed, nearest
from csot._core.files import is_of_objects, open_zip, read_member, read_npy
from csot.data.labels import check_classes, tidy_ids, tidy_labels
from csot.data.types import LabelledData, Labels, Matrix

ROWS = 8192
"""Rows looked at together, so that a memory map stays on disk."""


def check_matrix(values: npt.NDArray[Any], where: str, columns: list[str] | None = None) -> Matrix:
    """`values` as floats, (N, D); an error names the row and column of what is not finite."""
    if values.ndim != 2 or 0 in values.shape:
        remedy = (
            "flatten each row: reshape(len(x), -1)" if values.ndim > 2 else "one row per sample"
        )
        raise DataError(f"{where} has shape {values.shape}; (N, D) is needed: {remedy}")
    if values.dtype.kind not in "fiub":
        raise DataError(f"{where} has the type {values.dtype}; real numbers are needed")
    for start in range(0, len(values), ROWS):
        block = values[start : start + ROWS]
        if block.dtype.kind != "f":
            break
        finite = np.isfinite(block)
        if not finite.all():
            row, column = (int(index[0]) for index in np.nonzero(~finite))
            name = column if columns is None else repr(columns[column])
            raise DataError(
                f"{where} holds {block[row, column]} in row {start + row} (from 0), column {name}; "
                "fill in or drop what is missing first"
            )
    if values.dtype.kind == "f":
        return values
    return values.astype(np.float32 if values.dtype.itemsize <= 2 else np.float64)


Arrays = Mapping[str, npt.NDArray[Any]]
NAMES = ("features", "labels", "pred_probs", "ids", "class_names")
ALIASES = {
    "X": "features",
    "x": "features",
    "y": "labels",
    "train": "features",
    "train_features": "features",
    "train_labels": "labels",
    "X_train": "features",
    "x_train": "features",
    "y_train": "labels",
    "test": "test_features",
    "X_test": "test_features",
    "x_test": "test_features",
    "y_test": "test_labels",
}
"""Other names of arrays."""
SPLIT_NAMES = ("test_features", "test_labels", "true_labels")


def is_array_folder(folder: Path) -> bool:
    """Whether it holds features or labels as .npy files."""
    names = [name for name, known in ALIASES.items() if known in ("features", "labels")]
    return any((folder / f"{name}.npy").exists() for name in ("features", "labels", *names))


def read_arrays(path: Path, labelled: bool = True) -> LabelledData:
    """`features` and `labels` of an .npz file or a folder of .npy files, where they are
    memory-mapped; `pred_probs`, `ids` and `class_names` if there."""
    return from_arrays(path, *load_arrays(path), labelled)


def load_arrays(path: Path) -> tuple[Arrays, list[str]]:
    """The arrays by their first names, and every name that is there."""
    wanted = [*NAMES, *SPLIT_NAMES, *ALIASES]
    found, held = load_array_folder(path, wanted) if path.is_dir() else load_npz(path, wanted)
    arrays = {ALIASES.get(name, name): array for name, array in found.items()}
    if len(arrays) < len(found):
        raise DataError(f"{path} holds the same array under two names: {', '.join(held)}")
    return arrays, held


def load_npz(path: Path, names: Collection[str]) -> tuple[Arrays, list[str]]:
    """The arrays of those names that are there, and every name that is there."""
    remedy = "a single array is not enough: write numpy.savez(path, features=..., labels=...)"
    try:
        with open_zip(path, "a readable .npz file", remedy) as archive:
            held = [name.removesuffix(".npy") for name in archive.namelist()]
            arrays = {
                name: _load(path, name, lambda n: read_member(archive, n, path))
                for name in names
                if f"{name}.npy" in archive.namelist()
            }
    except FileError as error:
        raise DataError(str(error)) from error
    return arrays, held


def load_array_folder(folder: Path, names: Collection[str]) -> tuple[Arrays, list[str]]:
    """`load_npz` for a folder of .npy files; large ones are memory-mapped."""
    held = sorted(path.stem for path in folder.glob("*.npy"))

    def load(name: str) -> npt.NDArray[Any]:
        large = ALIASES.get(name, name).endswith("features") or name == "pred_probs"
        return read_npy(folder / f"{name}.npy", mapped=large)

    return {name: _load(folder, name, load) for name in names if name in held}, held


def _load(path: Path, name: str, load: Callable[[str], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    try:
        return load(name)
    except FileError as error:
        if is_of_objects(error):
            is_number = ALIASES.get(name, name).endswith("features")
            remedy = ".astype('float32')" if is_number else ".astype(str)"
            raise DataError(
                f"{path}: {name} holds Python objects, and pickles are not read because they can "
                f"run code; save {name}{remedy} instead"
            ) from error
        raise DataError(str(error)) from error


def from_arrays(path: Path, arrays: Arrays, held: list[str], labelled: bool = True) -> LabelledData:
    """Checked, under the names of `NAMES`; `held` is what there is, for the error.

    Unless the data has to be `labelled`, labels may be left out or be of one class, and
    `pred_probs` are not read.
    """
    for name in ("features", "labels") if labelled else ("features",):
        if name not in arrays:
            raise DataError(
                f"{path} has no array {name!r}; it holds {listed(held) or 'nothing'}"
                f"{nearest(name, held)}"
            )
    features = check_matrix(arrays["features"], f"{path}: features")
    n = len(features)
    for name in ("labels", "ids"):
        if name in arrays and arrays[name].shape != (n,):
            raise DataError(
                f"{path}: {name} has shape {arrays[name].shape}, but features has {n} rows; "
                f"({n},) is needed"
            )
    class_names = None
    if "class_names" in arrays:
        class_names = [str(name) for name in arrays["class_names"].ravel()]
        tidy_ids(class_names, f"{path}: class_names")
    labels = tidy_labels(arrays.get("labels", [None] * n), f"{path}: labels")
    if class_names is not None:
        labels = named(labels, class_names, path)
    pred_probs = None
    if labelled and "pred_probs" in arrays:
        pred_probs = _check_probabilities(arrays["pred_probs"], n, labels, class_names, path)
    ids = arrays["ids"] if "ids" in arrays else range(n)
    return LabelledData(
        kind="arrays",
        root=path if path.is_dir() else path.parent,
        ids=tidy_ids(ids, f"{path}: ids"),
        labels=labels,
        class_names=class_names,
        features=features,
        pred_probs=pred_probs,
    )


def named(labels: Labels, class_names: list[str], path: Path) -> Labels:
    """Numbers become the names they stand for; names are looked up."""
    named = np.empty_like(labels)
    known = set(class_names)
    for row, label in enumerate(labels):
        if label is None:
            named[row] = None
        elif str(label) in known:
            named[row] = str(label)
        elif isinstance(label, int) and 0 <= label < len(class_names):
            named[row] = class_names[label]
        else:
            raise DataError(
                f"{path}: the label {clip(repr(label))} in row {row} (from 0) is neither "
                f"a name nor a number of class_names ({len(class_names)}: {listed(class_names, 5)})"
                f"{nearest(str(label), class_names)}"
            )
    return named


def _check_probabilities(
    pred_probs: npt.NDArray[Any], n: int, labels: Labels, class_names: list[str] | None, path: Path
) -> Matrix:
    where = f"{path}: pred_probs"
    found = {label for label in labels if label is not None}
    classes = len(found) if class_names is None else len(class_names)
    if pred_probs.shape != (n, classes):
        source = "different labels" if class_names is None else "class_names"
        raise DataError(
            f"{where} has shape {pred_probs.shape}; ({n}, {classes}) is needed: {n} rows and "
            f"{classes} {source}; where a class has no label, save class_names too"
        )
    return check_matrix(pred_probs, where)


@dataclass(frozen=True)
class ArraySplits:
    """Arrays with a training and, where there is one, a test part."""

    train: LabelledData
    test: LabelledData | None
    true_labels: Labels | None


def read_array_splits(path: Path) -> ArraySplits | None:
    """None where `path` holds no arrays."""
    is_file = path.is_file() and path.suffix.lower() == ".npz"
    if not is_file and not (path.is_dir() and is_array_folder(path)):
        return None
    arrays, held = load_arrays(path)
    train = from_arrays(path, arrays, held)
    check_classes(train.labels, f"{path}: labels")
    true_labels = None
    if "true_labels" in arrays:
        true_labels = _labels(arrays["true_labels"], "true_labels", len(train), train, path)
    return ArraySplits(train, _test(arrays, train, path), true_labels)


def _test(arrays: Arrays, train: LabelledData, path: Path) -> LabelledData | None:
    held = [name for name in ("test_features", "test_labels") if name in arrays]
    if not held:
        return None
    if len(held) == 1:
        raise DataError(f"{path} has {held[0]}, but a test set is test_features and test_labels")
    features = check_matrix(arrays["test_features"], f"{path}: test_features")
    assert train.features is not None
    if features.shape[1] != train.features.shape[1]:
        raise DataError(
            f"{path}: test_features has {features.shape[1]} columns, features has "
            f"{train.features.shape[1]}"
        )
    n = len(features)
    return LabelledData(
        kind="arrays",
        root=train.root,
        ids=[str(row) for row in range(n)],
        labels=_labels(arrays["test_labels"], "test_labels", n, train, path),
        features=features,
    )


def _labels(values: npt.NDArray[Any], name: str, n: int, train: LabelledData, path: Path) -> Labels:
    if values.shape != (n,):
        raise DataError(f"{path}: {name} has shape {values.shape}; ({n},) is needed")
    labels = tidy_labels(values, f"{path}: {name}")
    return labels if train.class_names is None else named(labels, train.class_names, path)
