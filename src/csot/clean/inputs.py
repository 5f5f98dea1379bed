"""What ``LabelCleaner`` is given, checked: labels, ids, probabilities and class priors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from csot.clean.labels import (
    EncodedLabels,
    as_array,
    encode_labels,
    missing,
)


def index_of(
    features: Any, labels: Any, sample_ids: Any, n_rows: int, n_labels: int
) -> pd.Index[Any]:
    """The user's own index: the ids, else that of the labels or features, else 0, 1, ..."""
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
    """Encoded labels, and the verified class of each row or -1; all of ``classes`` if given."""
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
