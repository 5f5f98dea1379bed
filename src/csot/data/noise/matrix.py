"""Noise by any transition matrix: a row of class i becomes j with probability T[i, j]."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from csot._core.errors import DataError, naming
from csot._core.files import check_file, read_npy
from csot.data.noise.base import Noise
from csot.data.types import TrainingData

LARGEST = 64 << 20
"""Bytes: a thousand classes need 25 MB as a CSV."""

ROW_SUM = 1e-3
"""How far a row may be from a sum of one: figures in a CSV are rounded. It is then scaled."""


@dataclass(frozen=True)
class Transition(Noise):
    """T from a .npy file, or from a CSV of numbers without a header; (C, C), rows sum to one."""

    path: Path

    def describe(self) -> str:
        return f"transition matrix {self.path.name}"

    def _draw(
        self, labels: Tensor, rows: Tensor, data: TrainingData, generator: torch.Generator
    ) -> Tensor:
        matrix = torch.from_numpy(read_matrix(self.path, len(data.class_names)))
        return draw_rows(matrix, labels, generator)


def draw_rows(matrix: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """For each label i a class j, drawn with the probabilities of row i."""
    shares = matrix.cumsum(1)
    shares = shares / shares[:, -1:]  # ends with exactly one, above every draw
    draws = torch.rand(len(labels), generator=generator, dtype=torch.float64)
    after = labels.clone()
    for c in range(len(matrix)):
        members = labels == c
        after[members] = torch.searchsorted(shares[c], draws[members], right=True)
    return after


def read_matrix(path: Path, classes: int) -> npt.NDArray[np.float64]:
    """Checked, and scaled to sums of one to the last digit."""
    if not path.exists():
        raise DataError(f"{path} does not exist (noise matrix:{path})")
    remedy = "write it with numpy.save, or as a CSV without a header"
    with naming(path, "a matrix of numbers", remedy, DataError):
        check_file(path, LARGEST)
        if path.suffix.lower() == ".npy":
            matrix = np.asarray(read_npy(path), dtype=np.float64)
        else:
            matrix = np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8-sig")
    if matrix.shape != (classes, classes):
        raise DataError(
            f"{path} has shape {matrix.shape}; ({classes}, {classes}) is needed: row i holds the "
            "share of class i that becomes each class"
        )
    # Written so that NaN is wrong too.
    wrong = ~((matrix >= 0).all(1) & (np.abs(matrix.sum(1) - 1) <= ROW_SUM))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"{path}: row {row} (from 0) sums to {matrix[row].sum():g} and its smallest entry is "
            f"{matrix[row].min():g}; shares are not negative and sum to 1"
        )
    scaled: npt.NDArray[np.float64] = matrix / matrix.sum(1, keepdims=True)
    return scaled
