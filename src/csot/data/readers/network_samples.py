"""Data that was read -> the samples that a network takes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from csot._core.errors import DataError, DataWarning, naming, require
from csot.data.samples import ImageFiles, InMemory, Samples
from csot.data.types import LabelledData, Matrix

LARGEST_SIZE = 224
SAMPLED = 64
"""Images whose sizes decide on one for all."""


def samples_of(
    data: LabelledData, size: int | None, where: str | Path, cache: Path | None = None
) -> Samples:
    """Images of ``size`` pixels, else of their common size; or features.

    Scaled images are kept in the folder ``cache``, if there is one.

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
