"""Labels as users have them, and as class indices: strings, numbers, pandas, some missing."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.exceptions import DataConversionWarning

from csot._core.errors import nearest


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


def as_array(labels: object) -> npt.NDArray[Any]:
    """As NumPy has it, but whole numbers with gaps stay whole numbers."""
    if isinstance(labels, pd.Series) and pd.api.types.is_extension_array_dtype(labels.dtype):
        return labels.to_numpy(dtype=object)
    return np.asarray(labels)


def check_same_index(**given: object) -> None:
    """Raise if two of the arguments are of pandas and their indexes differ.

    Rows are matched by position: those of different indexes would be mixed up silently.
    """
    indexes = {
        name: value.index
        for name, value in given.items()
        if isinstance(value, pd.Series | pd.DataFrame)
    }
    if not indexes:
        return
    first, *others = indexes
    for name in others:
        # Lengths that differ have an error of their own.
        if len(indexes[first]) == len(indexes[name]) and not indexes[first].equals(indexes[name]):
            shown = (", ".join(map(repr, indexes[one][:3].tolist())) for one in (first, name))
            raise ValueError(
                "`{}` and `{}` have different pandas indexes ({}, ... and {}, ...): rows are "
                "matched by position; align them, {}.loc[{}.index], or pass {}.to_numpy() if the "
                "order is the same".format(first, name, *shown, name, first, name)
            )


def _plain(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Objects that are all strings, or all whole numbers, as what they are."""
    kinds = {type(label) for label in labels.tolist()} if labels.dtype == object else set()
    if kinds and all(issubclass(kind, str) for kind in kinds):
        return labels.astype(str)
    if kinds and all(issubclass(kind, Integral) and not issubclass(kind, bool) for kind in kinds):
        return labels.astype(np.int64)
    return labels


def missing(
    labels: npt.NDArray[Any], classes: npt.NDArray[Any] | None = None
) -> npt.NDArray[np.bool_]:
    """None, NaN, NaT; and -1 if it is not among the known ``classes``.

    With no classes known, -1 beside at least two other whole-number classes.
    """
    absent = np.asarray(pd.isna(labels))
    numbers = labels[~absent]
    if labels.dtype == object:
        numbers = _plain(numbers)
    if numbers.dtype.kind not in "if":
        return absent
    present = np.unique(numbers)
    if classes is None:
        # With classes {-1, 1} the -1 is a class; with {-1, 0, 1} it can only mean "none".
        is_class = len(present) <= 2 or bool((present < -1).any())
    else:
        is_class = bool((classes == -1).any())
    if not is_class:
        absent[~absent] = numbers == -1
    return absent


def _places(
    name: str, labels: npt.NDArray[Any], classes: npt.NDArray[Any]
) -> npt.NDArray[np.int64]:
    """Where each label would be among the sorted classes."""
    try:
        found = np.searchsorted(classes, labels.astype(classes.dtype))
    except (ValueError, TypeError, OverflowError) as error:
        words = [label for label in labels.tolist() if isinstance(label, str)]
        raise _unknown(name, [*words, *labels.tolist()][0], classes) from error
    return np.minimum(found, len(classes) - 1)


def _unknown(name: str, label: Any, classes: npt.NDArray[Any]) -> ValueError:
    """The error for a label outside of the classes, with the likely remedy."""
    known = classes.tolist()
    label = label.item() if isinstance(label, np.generic) else label
    remedy = ""
    if isinstance(label, str) != isinstance(known[0], str):
        remedy = f"; convert the labels to {type(known[0]).__name__}"
    elif isinstance(label, str):
        remedy = nearest(label, known)
    shown = f"{known[:10]}" if len(known) <= 10 else f"{known[:10]} and {len(known) - 10} more"
    return ValueError(f"{name} contains {label!r}, which is not among the classes {shown}{remedy}")


def encode_labels(
    name: str, labels: object, classes: npt.NDArray[Any] | None = None
) -> EncodedLabels:
    """Encode labels (N,); with ``classes`` given, labels outside of them are an error."""
    array = as_array(labels)
    if array.dtype.kind in "US":
        array = array.astype(object)
    if array.ndim == 2 and array.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: "
            f"{name} of shape {array.shape} are read as {array.shape[:1]}",
            DataConversionWarning,
            stacklevel=5,
        )
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
    absent = missing(array, classes)
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
        classes = _plain(classes)
    index = np.full(len(array), -1, dtype=np.int64)
    where = _places(name, present, classes)
    unknown = np.asarray(classes[where] != present)
    if unknown.any():
        raise _unknown(name, present[unknown][0], classes)
    index[~absent] = where
    return EncodedLabels(index, classes)
