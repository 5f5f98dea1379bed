"""Votes as users have them -> a long table of class numbers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot._core.array_types import Ints
from csot.clean.inputs import EncodedLabels, encode_labels

LONG = ("sample", "annotator", "label")
"""Columns of a long table: one row per vote."""


@dataclass(frozen=True, eq=False)
class Votes:
    """V votes of A annotators on N samples. A pair is an annotator with one of their labels."""

    sample: Ints
    """(V,) row of the sample voted on."""
    annotator: Ints
    """(V,)"""
    label: Ints
    """(V,) class number."""
    samples: pd.Index[Any]
    """(N,) ids, in the order of features and pred_probs."""
    annotators: pd.Index[Any]
    """(A,) names, sorted where they can be."""
    classes: npt.NDArray[Any]
    """(C,) sorted."""

    def __len__(self) -> int:
        return len(self.sample)

    def counts(self) -> npt.NDArray[np.float64]:
        """Votes of each sample for each class, (N, C)."""
        n_classes = len(self.classes)
        flat = np.bincount(
            self.sample * n_classes + self.label, minlength=len(self.samples) * n_classes
        )
        return flat.reshape(-1, n_classes).astype(np.float64)

    def decode(self, index: Ints) -> npt.NDArray[Any]:
        """Labels of class numbers; None where the number is -1."""
        return EncodedLabels(index, self.classes).decode(index)


def is_long(votes: Any) -> bool:
    """Whether it is a table with a row per vote, not a matrix."""
    return isinstance(votes, pd.DataFrame) and set(LONG) <= set(votes.columns)


def encode_votes(votes: Any, samples: Any = None, class_names: Any = None) -> Votes:
    """Read a long table or a matrix with gaps.

    A DataFrame with the columns `sample`, `annotator` and `label` is a long table. Any other
    DataFrame, and any array, is a matrix (N, A): a row per sample, a column per annotator.
    """
    read = _from_long if is_long(votes) else _from_matrix
    sample, annotator, labels, rows, names = read(votes, samples)
    encoded = encode_labels("votes", labels, _classes(class_names))
    given = encoded.index >= 0
    if not given.any():
        raise ValueError("votes are all missing; there is nothing to agree on")
    if len(encoded.classes) < 2:
        raise ValueError(
            f"votes contain one class, {plain(encoded.classes[0])!r}; at least 2 classes are "
            "needed, name them in class_names if nobody voted for the others"
        )
    classes = encoded.classes
    if class_names is None and classes.dtype.kind == "f":
        classes = classes.astype(np.int64)  # whole numbers, floats only because of the gaps
    index = encoded.index[given]
    return Votes(sample[given], annotator[given], index, rows, names, classes)


Read = tuple[Ints, Ints, Any, "pd.Index[Any]", "pd.Index[Any]"]


def _from_long(votes: pd.DataFrame, samples: Any) -> Read:
    ids, names = votes["sample"], votes["annotator"]
    for column in (ids, names):
        absent = column.isna().to_numpy()
        if absent.any():
            row = int(absent.argmax())
            raise ValueError(f"votes has no {column.name} in row {row} (from 0); fill it in")
    rows = _unique(ids.unique() if samples is None else samples)
    sample = rows.get_indexer(pd.Index(ids))
    if (sample < 0).any():
        unknown = plain(ids.iloc[int((sample < 0).argmax())])
        raise ValueError(
            f"votes name the sample {unknown!r}, which samples does not list; list every sample"
        )
    found: pd.Index[Any] = pd.Index(names.unique())
    with suppress(TypeError):  # names of several types stay in the order in which they occur
        found = found.sort_values()
    return sample.astype(np.int64), found.get_indexer(pd.Index(names)), votes["label"], rows, found


def _from_matrix(votes: Any, samples: Any) -> Read:
    matrix = _matrix(votes)
    n_rows, n_columns = matrix.shape
    framed = isinstance(votes, pd.DataFrame)
    names = _unique(votes.columns if framed else range(n_columns), "annotators")
    rows = _unique((votes.index if framed else range(n_rows)) if samples is None else samples)
    if len(rows) != n_rows:
        raise ValueError(
            f"samples has {len(rows)} entries for {n_rows} rows of votes; pass one per row"
        )
    sample = np.repeat(np.arange(n_rows), n_columns)
    annotator = np.tile(np.arange(n_columns), n_rows)
    return sample, annotator, matrix.ravel(), rows, names


def _matrix(votes: Any) -> npt.NDArray[Any]:
    if isinstance(votes, pd.DataFrame):
        lacking = [name for name in LONG if name not in votes.columns]
        if len(lacking) < len(LONG) and len(votes.columns) <= len(LONG):
            raise ValueError(
                f"votes has no column {lacking[0]!r}; a long table needs {', '.join(LONG)}, it has "
                f"{list(votes.columns)}"
            )
        matrix = votes.astype(object).to_numpy()
    else:
        matrix = np.asarray(votes)
    if matrix.dtype == object:
        matrix = _numbers(matrix)
    if matrix.ndim != 2:
        raise ValueError(
            f"votes has shape {matrix.shape}; pass a matrix (N, A), one row per sample and one "
            f"column per annotator, or a DataFrame with the columns {', '.join(LONG)}"
        )
    return matrix


def _numbers(matrix: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Floats, where every cell is a number or a gap; else as it is."""
    gap = np.asarray(pd.isna(matrix))
    if not all(isinstance(cell, Real) and not isinstance(cell, bool) for cell in matrix[~gap]):
        return matrix
    numbers = np.full(matrix.shape, np.nan)
    numbers[~gap] = matrix[~gap].astype(np.float64)
    return numbers


def plain(value: Any) -> Any:
    """NumPy's scalars as Python's, for messages."""
    return value.item() if isinstance(value, np.generic) else value


def _unique(values: Any, what: str = "samples") -> pd.Index[Any]:
    index: pd.Index[Any] = pd.Index(values)
    if index.hasnans:
        raise ValueError(f"{what} has an entry without a name; fill it in")
    if index.has_duplicates:
        twice = plain(index[index.duplicated()][0])
        raise ValueError(f"{what} holds {twice!r} twice; ids must be unique")
    return index


def _classes(class_names: Any) -> npt.NDArray[Any] | None:
    if class_names is None:
        return None
    names = np.asarray(class_names)
    if names.ndim != 1 or len(np.unique(names)) != len(names) or len(names) < 2:
        raise ValueError(f"class_names must hold at least 2 different names, got {class_names!r}")
    return np.sort(names)
