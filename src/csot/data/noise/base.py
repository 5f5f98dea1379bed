"""What noise is: a draw of new labels, and the record of what came out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from csot._core.errors import DataError
from csot.data.types import TrainingData


@dataclass(frozen=True)
class NoisyLabels:
    """Labels after the noise, and the noise as it came out."""

    labels: Tensor
    """int64 (N,); -1 where there was no label before."""
    rate: float
    """Share of the labels that are others than before."""
    matrix: npt.NDArray[np.float64]
    """(C, C), rows sum to one: share of class i that became j. A class without rows stays."""
    description: str


class Noise(ABC):
    """One kind of label noise with its settings."""

    def apply(self, data: TrainingData, generator: torch.Generator) -> NoisyLabels:
        """Noise on the given labels of `data`. The same generator state gives the same labels."""
        classes = len(data.class_names)
        rows = (data.labels >= 0).nonzero()[:, 0]
        before = data.labels[rows]
        if classes < 2 or not len(rows):
            raise DataError(
                f"{data.name} has {classes} classes and {len(rows)} labelled rows: noise needs at "
                "least two classes and one row"
            )
        after = self._draw(before, rows, data, generator)
        labels = data.labels.clone()
        labels[rows] = after
        changed = int((before != after).sum())
        rate = changed / len(rows)
        outcome = f"{changed:,} of {len(rows):,} labels changed ({100 * rate:.2f} %)"
        return NoisyLabels(
            labels, rate, realised_matrix(before, after, classes), f"{self.describe()}: {outcome}"
        )

    @abstractmethod
    def describe(self) -> str:
        """The convention in words, without what came out."""

    @abstractmethod
    def _draw(
        self, labels: Tensor, rows: Tensor, data: TrainingData, generator: torch.Generator
    ) -> Tensor:
        """New labels (n,) for the labelled rows of `data`, whose labels are `labels`."""


@dataclass(frozen=True)
class NoNoise(Noise):
    """The labels as they are."""

    def describe(self) -> str:
        return "no noise"

    def _draw(
        self, labels: Tensor, rows: Tensor, data: TrainingData, generator: torch.Generator
    ) -> Tensor:
        return labels


def realised_matrix(before: Tensor, after: Tensor, classes: int) -> npt.NDArray[np.float64]:
    counts = torch.bincount(before * classes + after, minlength=classes**2)
    matrix = counts.view(classes, classes).double().numpy()
    empty = matrix.sum(1) == 0
    matrix[empty, empty] = 1.0
    share: npt.NDArray[np.float64] = matrix / matrix.sum(1, keepdims=True)
    return share


def whole(rate: float, n: int) -> int:
    """int(rate * n) of the decimal rate: 0.29 * 100 is 29, though floats make it 28.999."""
    return int(rate * n + 1e-9)


def percent(rate: float) -> str:
    return f"{100 * rate:g} %"
