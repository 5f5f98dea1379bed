"""Arrays with a training and a test part in one .npz file, or in one folder of .npy files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from csot.data.arrays import (
    NAMES,
    Arrays,
    from_arrays,
    is_array_folder,
    load_array_folder,
    load_npz,
    named,
)
from csot.data.errors import DataError
from csot.data.labelled import LabelledData, Labels
from csot.data.labels import tidy_labels
from csot.data.matrix import check_matrix

ALIASES = {
    "train": "features",
    "train_features": "features",
    "train_labels": "labels",
    "test": "test_features",
}
EXTRA = ("test_features", "test_labels", "true_labels")


@dataclass(frozen=True)
class ArraySplits:
    train: LabelledData
    test: LabelledData | None
    true_labels: Labels | None


def read_array_splits(path: Path) -> ArraySplits | None:
    """None where `path` holds no arrays."""
    wanted = [*NAMES, *EXTRA, *ALIASES]
    if path.is_file() and path.suffix.lower() == ".npz":
        found, held = load_npz(path, wanted)
    elif path.is_dir() and (is_array_folder(path) or any(path.glob("train*.npy"))):
        found, held = load_array_folder(path, wanted)
    else:
        return None
    arrays = {ALIASES.get(name, name): array for name, array in found.items()}
    if len(arrays) < len(found):
        raise DataError(f"{path} holds the same array under two names: {', '.join(held)}")
    train = from_arrays(path, arrays, held)
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
