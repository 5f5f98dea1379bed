"""Noise from a file of labels, such as DivideMix and NCE write: `0.5_sym.json`.

One file gives every method the same wrong labels, whatever the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from csot._core.errors import DataError, naming
from csot._core.files import read_json, read_npy
from csot.data.datasets.core.cifar_files import checked_labels
from csot.data.noise.base import Noise
from csot.data.types import TrainingData

LARGEST = 256 << 20
"""Bytes: ten million labels need 60 MB as JSON."""


@dataclass(frozen=True)
class LabelFile(Noise):
    """A label for every training row, as a JSON list or a .npy array of class numbers from 0."""

    path: Path

    def describe(self) -> str:
        return f"labels of {self.path.name}"

    def _draw(
        self, labels: Tensor, rows: Tensor, data: TrainingData, generator: torch.Generator
    ) -> Tensor:
        found = read_label_file(self.path, len(data.class_names))
        if len(found) == len(data):
            return torch.from_numpy(found)[rows]
        # A part of the data: its ids are row numbers of the whole, as those of CIFAR are.
        numbers = [int(name) if name.isdecimal() else len(found) for name in data.ids]
        if max(numbers) >= len(found):
            raise DataError(
                f"{self.path} has {len(found):,} labels, {data.name} has {len(data):,} training "
                "rows: the file needs one label per row, in the same order"
            )
        return torch.from_numpy(found)[torch.tensor(numbers)[rows]]


def read_label_file(path: Path, classes: int) -> npt.NDArray[np.int64]:
    """(N,) class numbers within the classes."""
    if not path.exists():
        raise DataError(f"{path} does not exist (noise file:{path})")
    remedy = "a JSON list or a .npy array of class numbers is needed"
    with naming(path, "a list of labels", remedy, DataError):
        values = read_npy(path) if path.suffix.lower() == ".npy" else read_json(path, LARGEST)
    if not isinstance(values, np.ndarray | list):
        raise DataError(f"{path} holds a {type(values).__name__}: {remedy}")
    return checked_labels(values, len(values), classes, path, "label")
