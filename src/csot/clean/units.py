"""Columns in any units, dates and micrometres alike, as numbers that single precision can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
