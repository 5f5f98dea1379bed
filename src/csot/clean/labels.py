"""Labels as users have them, and as class indices: strings, numbers, pandas, some missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd


@dataclass(frozen=True)
class EncodedLabels:
    """Class indices (N,), -1 where no label is given, and the classes they index."""

    index: npt.NDArray[np.int64]
    classes: npt.NDArray[Any]

    def decode(self, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Labels of class indices; None where the index is -1."""
        if (index >= 0).all():
            return self.classes[index]
        decoded = self.classes.astype(object)[np.maximum(index, 0)]
        decoded[index < 0] = None
        return decoded


def missing(labels: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """None, NaN, NaT; and -1 beside at least two other whole-number classes."""
    absent = np.asarray(pd.isna(labels))
    if labels.dtype.kind in "if":
        present = np.unique(labels[~absent])
        # With classes {-1, 1} the -1 is a class; with {-1, 0, 1} it can only mean "none".
        if len(present) > 2 and (present >= -1).all():
            absent = absent | (labels == -1)
    return absent


def encode_labels(
    name: str, labels: object, classes: npt.NDArray[Any] | None = None
) -> EncodedLabels:
    """Encode labels (N,); with ``classes`` given, labels outside of them are an error."""
    array = np.asarray(labels)
    if array.dtype.kind in "US":
        array = array.astype(object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}: one label a row, shape (N,), is needed")
    if array.dtype.kind == "f" and np.isinf(array).any():
        raise ValueError(f"Input y contains infinity: {name} must be class labels")
    if array.dtype.kind == "f":
        whole = array[~np.isnan(array)]
        if (whole != np.round(whole)).any():
            raise ValueError(
                f"Unknown label type: continuous. {name} must be class labels, got "
                f"{whole[whole != np.round(whole)][0]!r}"
            )
    absent = missing(array)
    present = array[~absent]
    if classes is None:
        try:
            classes = np.unique(present)
        except TypeError as error:
            kinds = sorted({type(label).__name__ for label in present.tolist()})
            raise ValueError(
                f"{name} mixes types that cannot be ordered ({', '.join(kinds)}); convert them to "
                "strings"
            ) from error
        if classes.dtype == object and all(isinstance(label, str) for label in classes):
            classes = classes.astype(str)
    index = np.full(len(array), -1, dtype=np.int64)
    where = np.searchsorted(classes, present.astype(classes.dtype))
    where = np.minimum(where, len(classes) - 1)
    unknown = classes[where] != present
    if unknown.any():
        raise ValueError(
            f"{name} contains {present[unknown][0]!r}, which is not among the classes "
            f"{classes[:10].tolist()}"
        )
    index[~absent] = where
    return EncodedLabels(index, classes)
