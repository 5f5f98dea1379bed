"""Features on their principal axes: there the ridge probe's problem is well scaled."""

from __future__ import annotations

import torch
from torch import Tensor

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
