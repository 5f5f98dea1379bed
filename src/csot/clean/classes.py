"""What is known of the classes, in the order of the cleaner: the sorted labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from csot._core.errors import listed, nearest
from csot.data import DataError, DataWarning, LabelledData
from csot.data.types import Labels, Matrix

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
