"""Features in any units as numbers that single precision can hold, on their principal axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

ROWS_AT_A_TIME = 8192
ROUNDING = 4.0
"""A column that varies by no more than this many roundings of its largest value is constant."""


@dataclass(frozen=True)
class Units:
    """x -> (x - mean) / size, in double precision first; constant columns become zero.

    One size for all columns, so that none gains or loses weight: the middle one of their ranges.
    """

    mean: npt.NDArray[np.float64]
    size: float
    varies: npt.NDArray[np.bool_]

    @staticmethod
    def of(rows: npt.NDArray[Any]) -> Units:
        low, high = rows.min(0).astype(np.float64), rows.max(0).astype(np.float64)
        rounding = ROUNDING * float(np.finfo(rows.dtype).eps)
        varies = high / 2 - low / 2 > rounding * np.maximum(np.abs(low), np.abs(high)) / 2
        spans = (high / 2 - low / 2)[varies]
        size = 2 * float(np.median(spans)) if len(spans) else 1.0
        return Units(rows.mean(0, dtype=np.float64), size, varies)

    def __call__(self, rows: npt.NDArray[Any], dtype: type[np.floating[Any]]) -> npt.NDArray[Any]:
        numbers = np.zeros(rows.shape, dtype)
        for i in range(0, len(rows), ROWS_AT_A_TIME):
            part = slice(i, i + ROWS_AT_A_TIME)
            centred = (rows[part] - self.mean) / self.size
            numbers[part] = np.where(self.varies, centred, 0.0)
        return numbers


# Features on their principal axes: there the ridge probe's problem is well scaled.

NEGLIGIBLE = 1e-6
"""Directions with less than this share of the largest variance are dropped."""


class Basis:
    """Centred features, rotated to principal axes, of mean variance one; a constant comes last.

    Not whitened: a ridge on these coordinates trusts directions of large variance more, which in
    embeddings is where the classes are.
    """

    def __init__(self, features: Tensor) -> None:
        n, dim = features.shape
        self._mean = features.mean(0)
        centred = features - self._mean
        if dim <= n:
            variance, axes = torch.linalg.eigh((centred.T @ centred).double() / n)
        else:
            # Fewer rows than columns: the axes through the smaller Gram matrix.
            variance, rows = torch.linalg.eigh((centred @ centred.T).double() / n)
            axes = centred.T.double() @ rows / (variance.clamp_min(1e-12) * n).sqrt()
        keep = variance > variance.max() * NEGLIGIBLE
        variance, axes = variance[keep].flip(0), axes[:, keep].flip(1)
        scale = variance.mean().sqrt()
        self._axes = (axes / scale).float()
        self.variances = torch.cat([variance / scale**2, torch.ones(1)]).float()
        self.rows = self(features)

    def __call__(self, features: Tensor) -> Tensor:
        """Coordinates (N, D') of other features, in their own precision."""
        dtype = features.dtype
        turned = (features - self._mean.to(dtype)) @ self._axes.to(dtype)
        return torch.cat([turned, turned.new_ones(len(turned), 1)], 1)

    def take(self, rows: Tensor) -> Basis:
        """The same map, with the coordinates of some of the training rows."""
        part = self.without_training_rows()
        part.rows = self.rows[rows]
        return part

    def coordinates(self, features: Tensor) -> Tensor:
        """The same without the last column, which is constant."""
        return self(features)[:, :-1]

    @property
    def row_coordinates(self) -> Tensor:
        """Coordinates of the training rows, without the constant column."""
        return self.rows[:, :-1]

    def without_training_rows(self) -> Basis:
        """The same map, without the coordinates of the rows it was made from."""
        return Basis.restore(self.parameters())

    def parameters(self) -> dict[str, Tensor]:
        """All that defines the map."""
        return {"mean": self._mean, "axes": self._axes, "variances": self.variances}

    @staticmethod
    def restore(parameters: dict[str, Tensor]) -> Basis:
        """The map with these parameters, without training rows."""
        basis = object.__new__(Basis)
        basis._mean, basis._axes = parameters["mean"], parameters["axes"]
        basis.variances = parameters["variances"]
        basis.rows = basis._axes.new_zeros(0, basis._axes.shape[1] + 1)
        return basis
