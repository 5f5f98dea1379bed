"""Rows that no class fits: far from every class mean, out of all proportion to the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

DEVIATIONS = 6.0
"""Robust deviations of the log distance to the nearest class beyond which no class fits."""
LEAST_ROWS = 20
ROWS_AT_A_TIME = 4096

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class ClassDistances:
    """Means (K, D) of the classes, the spread (D,) within them, and the largest log distance.

    Coordinates on principal axes, divided by their spread within classes. The limit is the median
    of the training rows' log distances plus so many median absolute deviations, so that a few
    misfits cannot hide.
    """

    means: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]
    limit: float

    @staticmethod
    def of(rows: Floats, posterior: npt.NDArray[np.float64]) -> ClassDistances:
        """From coordinates (N, D) and the posterior of the truth (N, C)."""
        shares = posterior.sum(0)
        used = shares > 1.0
        dim = rows.shape[1]
        if len(rows) < LEAST_ROWS or not used.any():
            return ClassDistances(np.zeros((1, dim)), np.ones(dim), float("inf"))
        totals = posterior.astype(rows.dtype).T @ rows
        means = totals[used].astype(np.float64) / shares[used, None]
        squares = np.square(rows).mean(0, dtype=np.float64)
        within = squares - (shares[used, None] * means**2).sum(0) / shares[used].sum()
        spread = np.sqrt(np.maximum(within, 1e-12 * max(float(within.max()), 1e-30)))
        distance = ClassDistances(means, spread, float("inf")).nearest(rows)
        middle = np.median(distance)
        deviation = 1.4826 * np.median(np.abs(distance - middle))
        limit = float(middle + DEVIATIONS * max(float(deviation), 0.05))
        return ClassDistances(means, spread, limit)

    def nearest(self, rows: Floats) -> npt.NDArray[np.float64]:
        """log of the squared distance (N,) to the nearest class mean."""
        centres = self.means / self.spread
        lengths, nearest = (centres**2).sum(1), np.empty(len(rows))
        for i in range(0, len(rows), ROWS_AT_A_TIME):
            part = slice(i, i + ROWS_AT_A_TIME)
            scaled = rows[part] / self.spread
            to_centres = lengths - 2 * scaled @ centres.T
            nearest[part] = np.einsum("ij,ij->i", scaled, scaled) + to_centres.min(1)
        return np.asarray(np.log(np.maximum(nearest, 1e-12)))

    def misfits(self, rows: Floats) -> npt.NDArray[np.bool_]:
        """Rows (N,) that no class fits."""
        return np.asarray(self.nearest(rows) > self.limit)
