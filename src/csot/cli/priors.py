"""What is known of the classes, in the order of the cleaner: the sorted labels."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from csot._core.errors import listed, nearest
from csot.data import DataError, DataWarning, LabelledData
from csot.data.types import Labels, Matrix


def classes_of(data: LabelledData, verified: Labels | None) -> list[str | int]:
    """All classes that a row was given or verified to be, sorted."""
    given = data.labels if data.votes is None else data.votes["label"]
    found = {*given, *(() if verified is None else verified)} - {None}
    return sorted(found)


def parse_class_prior(text: str | None, classes: list[str | int]) -> npt.NDArray[np.float64] | None:
    """`uniform`, or `name=share` for every class, comma-separated; shares need not sum to one."""
    if text is None:
        return None
    if text.strip() == "uniform":
        return np.full(len(classes), 1 / len(classes))
    names = [str(name) for name in classes]
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, equals, share = part.rpartition("=")
        name = name.strip()
        try:
            shares[name] = float(share)
        except ValueError:
            equals = ""
        if not equals or not 0 < shares[name] < float("inf"):
            raise DataError(
                f"--class-prior {text}: {part.strip()!r} is not name=share with a positive share; "
                "write cat=0.2,dog=0.8, or uniform"
            )
        if name not in names:
            raise DataError(
                f"--class-prior names the class {name!r}, which the data does not have "
                f"({listed(names, 8)}){nearest(name, names)}"
            )
    lacking = [name for name in names if name not in shares]
    if lacking:
        raise DataError(f"--class-prior lacks the classes {listed(lacking, 8)}")
    total = sum(shares.values())
    return np.array([shares[name] / total for name in names])


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
