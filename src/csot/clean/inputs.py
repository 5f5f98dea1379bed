"""What `LabelCleaner` is given, checked: labels, ids, probabilities and class priors.

Labels may be strings, numbers or pandas objects, some missing; they become class indices.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.exceptions import DataConversionWarning

from csot._core.errors import listed, nearest
from csot.data import DataError, DataWarning, LabelledData
from csot.data.types import Labels, Matrix


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
    """Convert to a NumPy array in which whole numbers with gaps stay whole numbers."""
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
    """None, NaN, NaT; and -1 if it is not among the known `classes`.

    With no classes known, -1 beside at least two other whole-number classes.
    """
    absent = np.asarray(pd.isna(labels))
    numbers = labels[~absent]
    if labels.dtype == object:
        numbers = _plain(numbers)
    if numbers.dtype.kind not in "if":
        return absent
    if classes is None:
        # With classes {-1, 1} the -1 is a class; with {-1, 0, 1} it can only mean "none".
        present = np.unique(numbers)
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
    """Encode labels (N,); with `classes` given, labels outside of them are an error."""
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
        raise ValueError(
            f"{name} has shape {array.shape}: one label per row, shape (N,), is needed"
        )
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


def index_of(
    features: Any, labels: Any, sample_ids: Any, n_rows: int, n_labels: int
) -> pd.Index[Any]:
    """The user's own index: the ids, else the index of the labels or features, else 0, 1, ..."""
    if n_labels != n_rows:
        raise ValueError(
            f"labels has {n_labels} entries but features has {n_rows} rows; pass one label per row"
        )
    if sample_ids is not None:
        ids: pd.Index[Any] = pd.Index(sample_ids)
        if len(ids) != n_rows:
            raise ValueError(
                f"sample_ids has {len(ids)} entries for {n_rows} rows; pass one per row"
            )
        return ids
    for source in (labels, features):
        if isinstance(source, (pd.Series, pd.DataFrame)):
            index: pd.Index[Any] = source.index
            return index
    return pd.RangeIndex(n_rows)


def encode(
    labels: Any, verified: Any, classes: npt.NDArray[Any] | None = None
) -> tuple[EncodedLabels, npt.NDArray[np.int64]]:
    """Encoded labels, and the verified class of each row or -1; all of `classes` if given."""
    if labels is None:
        raise ValueError("requires y to be passed, but the target y is None: labels are needed")
    encoded = encode_labels("labels", labels, classes)
    if verified is None:
        return encoded, np.full(len(encoded.index), -1, dtype=np.int64)
    array = as_array(verified)
    if array.shape != encoded.index.shape:
        raise ValueError(
            f"verified has shape {array.shape} but there are {len(encoded.index)} labels; pass a "
            "mask or a label for each row, missing where it is not known"
        )
    present = array[~missing(array, encoded.classes)]
    if all(isinstance(value, (bool, np.bool_)) for value in present.tolist()):
        looked = array.copy()
        looked[np.asarray(pd.isna(array))] = False
        return encoded, np.where(looked.astype(np.bool_), encoded.index, -1)
    if classes is None:
        classes = _joint_classes(encoded.classes, encode_labels("verified", present).classes)
    locked = encode_labels("verified", array, classes).index
    return encode_labels("labels", labels, classes), locked


def _joint_classes(given: npt.NDArray[Any], verified: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The classes of both; whole numbers that came as floats, beside NaN, are still the same."""
    if not len(given):
        return verified
    text = {classes.dtype.kind in "US" for classes in (given, verified)}
    if len(text) > 1:
        raise ValueError(
            f"verified contains {verified[0]!r} but the labels are like {given[0]!r}; both must be "
            "of one type"
        )
    if given.dtype.kind in "iu" and verified.dtype.kind == "f":
        verified = verified.astype(given.dtype)
    return np.union1d(given, verified)


def checked_pred_probs(pred_probs: Any, n_rows: int, encoded: EncodedLabels) -> torch.Tensor | None:
    if pred_probs is None:
        return None
    array = np.asarray(pred_probs, dtype=np.float32)
    wanted = (n_rows, len(encoded.classes))
    if array.shape != wanted:
        raise ValueError(
            f"pred_probs has shape {array.shape} but {wanted} is needed: a row for each label, a "
            f"column for each class, in the order {encoded.classes[:10].tolist()}"
        )
    check_probabilities(array)
    return torch.from_numpy(array)


def check_probabilities(pred_probs: npt.NDArray[np.floating[Any]]) -> None:
    """Raise an error unless every row is a distribution."""
    sums = pred_probs.sum(1)
    if not np.isfinite(sums).all() or (pred_probs < 0).any() or np.abs(sums - 1).max() > 1e-2:
        raise ValueError("pred_probs must be finite probabilities whose rows sum to 1")


def checked_prior(name: str, prior: Any, classes: npt.NDArray[Any]) -> torch.Tensor | None:
    if prior is None:
        return None
    array = np.asarray(prior, dtype=np.float64)
    if array.shape != classes.shape or not (array >= 0).all() or abs(array.sum() - 1) > 1e-3:
        raise ValueError(
            f"{name} must hold one share for each of the {len(classes)} classes, not negative and "
            f"summing to 1, got {prior!r}"
        )
    return torch.from_numpy(array / array.sum())


# What is known about the classes, in the order of the cleaner: the sorted labels.

ClassPrior = str | Mapping[str, float]
"""`uniform`, or the share of each class by its name; shares need not sum to one."""


def classes_of(data: LabelledData, verified: Labels | None) -> list[str | int]:
    """All classes that a row was given or verified to be, sorted."""
    given = data.labels if data.votes is None else data.votes["label"]
    found = {*given, *(() if verified is None else verified)} - {None}
    return sorted(found)


def align_prior(
    prior: ClassPrior | None, classes: list[str | int]
) -> npt.NDArray[np.float64] | None:
    """Shares of the classes (C,), in their order."""
    if prior is None:
        return None
    if isinstance(prior, str):
        if prior != "uniform":
            raise DataError(
                f"`class_prior` {prior!r} is not known; pass 'uniform', or the share of each class"
            )
        return np.full(len(classes), 1 / len(classes))
    names = [str(name) for name in classes]
    for name, share in prior.items():
        if name not in names:
            raise DataError(
                f"`class_prior` names the class {name!r}, which the data does not have "
                f"({listed(names, 8)}){nearest(name, names)}"
            )
        if not 0 < share < float("inf"):
            raise DataError(
                f"`class_prior` has the share {share} for {name!r}; shares are positive"
            )
    lacking = [name for name in names if name not in prior]
    if lacking:
        raise DataError(f"`class_prior` lacks the classes {listed(lacking, 8)}")
    total = sum(prior.values())
    return np.array([prior[name] / total for name in names])


def align_probabilities(data: LabelledData, classes: list[str | int]) -> Matrix | None:
    """`pred_probs` with a column for each class that some row has, in order; rows sum to one."""
    if data.pred_probs is None:
        return None
    if data.class_names is None:
        return data.pred_probs
    lacking = [name for name in data.class_names if name not in classes]
    if lacking:
        warnings.warn(
            f"no row has the classes {listed(lacking, 5)}: their columns of pred_probs are left "
            "out",
            DataWarning,
            stacklevel=2,
        )
    order = [data.class_names.index(str(name)) for name in classes]
    columns = np.asarray(data.pred_probs[:, order], dtype=np.float64)
    if not lacking:
        return columns
    total = columns.sum(1, keepdims=True)
    uniform: Matrix = np.full_like(columns, 1 / len(classes))
    np.divide(columns, total, out=uniform, where=total > 0)
    return uniform
