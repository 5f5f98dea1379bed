"""Inputs to predict: the samples for a trained network, with or without labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from csot._core.errors import DataError, listed, nearest
from csot.data.columns import TableFeatures
from csot.data.datasets.core.dataset_registry import (
    data_path,
    dataset_names,
    read_training_data,
)
from csot.data.labels import encode
from csot.data.readers.arrays import is_array_folder
from csot.data.readers.labelled_table import Columns
from csot.data.readers.read_data import read_data
from csot.data.readers.table_file import is_table
from csot.data.readers.training import samples_of, warn_skipped
from csot.data.samples import Kind, Samples
from csot.data.types import LabelledData


@dataclass(frozen=True)
class Wanted:
    """What a trained network takes, and the classes it knows."""

    kind: Kind
    shape: tuple[int, ...]
    class_names: list[str]
    table_features: TableFeatures | None = None
    """How columns of a table became features, if it was trained on a table."""


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
    path = data_path(data)
    if path is None:
        found = _named(str(data), wanted, data_dir, allow_outside)
    elif not path.exists():
        names = dataset_names()
        raise DataError(
            f"{data} is neither a path nor one of {listed(names, len(names))}"
            f"{nearest(str(data), names)}"
        )
    else:
        found = _from_path(path, wanted, columns or Columns(), root, allow_outside)
    if found.samples.shape != wanted.shape:
        raise DataError(f"{data} holds {_what(found.samples.shape)}; {_needs(wanted)}")
    return found


def _named(name: str, wanted: Wanted, data_dir: Path | None, allow_outside: bool) -> Inputs:
    known = read_training_data(name, data_dir=data_dir, allow_outside=allow_outside)
    if not known.tests:
        raise DataError(f"{name} has no test set")
    test = known.tests[0]
    if test.samples.shape != wanted.shape:  # before its classes are compared
        raise DataError(f"{name} holds {_what(test.samples.shape)}; {_needs(wanted)}")
    labels = np.array([known.class_names[label] for label in test.labels.tolist()], dtype=object)
    ids = [str(row) for row in range(len(test.samples))]
    return Inputs(test.samples, ids, encode(labels, wanted.class_names, name))


def _from_path(
    path: Path, wanted: Wanted, columns: Columns, root: Path | None, allow_outside: bool
) -> Inputs:
    if wanted.kind == "images" and columns.image is None and is_table(path):
        raise DataError(
            f"{path} is a table, and {_needs(wanted)}: name the column of their paths with `image`"
        )
    if wanted.kind != "images" and path.is_dir() and not is_array_folder(path):
        raise DataError(f"{path} is a folder of images; {_needs(wanted)}")
    data = read_data(
        path,
        columns,
        root,
        labelled=False,
        allow_outside=allow_outside,
        fitted=wanted.table_features,
    )
    if wanted.kind != "images" and data.images is not None:
        raise DataError(f"{path} is a table of images; {_needs(wanted)}")
    samples = samples_of(data, wanted.shape[-1], path)
    if samples.shape != wanted.shape and data.feature_columns is not None:
        chosen = listed(data.feature_columns, 5)
        raise DataError(
            f"{path} has {_what(samples.shape)} ({chosen}), but {_needs(wanted)}; name a column of "
            "labels with `label`, and one of ids with `id`"
        )
    warn_skipped(path, data)
    return Inputs(samples, data.ids, labels_of(data, wanted, path))


def labels_of(data: LabelledData, wanted: Wanted, path: Path) -> torch.Tensor | None:
    """Sub-folders of images are labels only if one of them is a class that the network knows."""
    present = {str(label) for label in data.labels if label is not None}
    if not present or (data.kind == "images" and not present & set(wanted.class_names)):
        return None
    where = f"{path}: sub-folders" if data.kind == "images" else str(path)
    return encode(data.labels, wanted.class_names, where)


def _what(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} features per row" if len(shape) == 1 else f"images of shape {shape}"


def _needs(wanted: Wanted) -> str:
    return f"the run was trained on {_what(wanted.shape)}"
