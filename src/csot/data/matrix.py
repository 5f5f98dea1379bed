"""A matrix of finite numbers, checked without a second copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from csot.data.errors import DataError
from csot.data.labelled import Matrix

ROWS = 8192
"""Rows looked at together, so that a memory map stays on disk."""


def check_matrix(values: npt.NDArray[Any], where: str, columns: list[str] | None = None) -> Matrix:
    """`values` as floats, (N, D); an error names the row and column of what is not finite."""
    if values.ndim != 2 or 0 in values.shape:
        remedy = "flatten each row: reshape(len(x), -1)" if values.ndim > 2 else "one row a sample"
        raise DataError(f"{where} has shape {values.shape}; (N, D) is needed: {remedy}")
    if values.dtype.kind not in "fiub":
        raise DataError(f"{where} has the type {values.dtype}; real numbers are needed")
    for start in range(0, len(values), ROWS):
        block = values[start : start + ROWS]
        if block.dtype.kind != "f":
            break
        finite = np.isfinite(block)
        if not finite.all():
            row, column = (int(index[0]) for index in np.nonzero(~finite))
            name = column if columns is None else repr(columns[column])
            raise DataError(
                f"{where} holds {block[row, column]} in row {start + row} (from 0), column {name}; "
                "fill in or drop what is missing first"
            )
    if values.dtype.kind == "f":
        return values
    return values.astype(np.float32 if values.dtype.itemsize <= 2 else np.float64)
