"""Rows that belong together, such as photographs of one patient: they share a fold."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from csot.clean.labels import as_array

Integers = npt.NDArray[np.int64]


def encode_groups(groups: Any, n_rows: int) -> Integers | None:
    """Group numbers (N,), -1 where the group is missing: such a row belongs to no group."""
    if groups is None:
        return None
    array = as_array(groups)
    if array.shape != (n_rows,):
        raise ValueError(
            f"groups has shape {array.shape} but there are {n_rows} rows; pass one group per row, "
            "None where a row belongs to no group"
        )
    return np.asarray(pd.factorize(array)[0], dtype=np.int64)


def join_groups(
    given: Integers | None, duplicates: Integers | None, n_folds: int
) -> Integers | None:
    """One group number per row (N,), every row in a group; None if every row stands alone.

    Both (N,), -1 for no group. Given groups that share a near-duplicate become one, unless so many
    do that a joint group would be larger than a fold: then only the given groups count.
    """
    parts = [part for part in (given, duplicates) if part is not None and (part >= 0).any()]
    if not parts:
        return None
    n_rows = len(parts[0])
    joint = components(n_rows, *_stars(parts))
    if given is not None and len(parts) == 2:
        alone = components(n_rows, *_stars(parts[:1]))
        limit = max(n_rows / n_folds, np.bincount(alone).max())
        joint = joint if np.bincount(joint).max() <= limit else alone
    return joint if joint.max() + 1 < n_rows else None


def components(n_rows: int, first: Integers, second: Integers) -> Integers:
    """Number of the connected component of each row (N,), given pairs of rows."""
    graph = coo_array((np.ones(len(first), np.bool_), (first, second)), (n_rows, n_rows))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _stars(parts: list[Integers]) -> tuple[Integers, Integers]:
    """Pairs (first row of the group, row) for the rows of every group."""
    first, second = [], []
    for part in parts:
        rows = np.flatnonzero(part >= 0)
        _, leader, member = np.unique(part[rows], return_index=True, return_inverse=True)
        first.append(rows[leader[member]])
        second.append(rows)
    return np.concatenate(first), np.concatenate(second)


def check_groups(
    groups: Integers | None, labels: Integers, classes: npt.NDArray[Any], n_folds: int
) -> None:
    """Raise if the groups leave nothing to cross-fit, warn if they leave little.

    ``groups`` as ``join_groups`` returns them; ``labels`` (N,) class indices, -1 for none.
    """
    if groups is None:
        return
    n_groups = int(groups.max()) + 1
    if n_groups < 2:
        raise ValueError(
            f"groups puts all {len(groups)} rows in one group; at least 2 groups are needed to "
            "judge rows by models that have not seen their group"
        )
    if n_groups < n_folds:
        warnings.warn(
            f"there are {n_groups} groups for {n_folds} folds; {n_groups} folds are used",
            UserWarning,
            stacklevel=3,
        )
    present = labels >= 0
    pairs = np.unique(np.stack([labels[present], groups[present]]), axis=1)[0]
    rows = np.bincount(labels[present], minlength=len(classes))
    confined = np.flatnonzero((np.bincount(pairs, minlength=len(classes)) == 1) & (rows > 1))
    if len(confined):
        names = ", ".join(repr(name) for name in classes[confined[:5]].tolist())
        more = f" and {len(confined) - 5} more" if len(confined) > 5 else ""
        warnings.warn(
            f"all rows labelled {names}{more} are in one group each: no model that judges them has "
            "seen the class, so their labels will look wrong; pass finer groups",
            UserWarning,
            stacklevel=3,
        )
