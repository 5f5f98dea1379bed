"""Cross-fitting: every row is judged by models that saw neither its label nor its group."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from csot._core.array_types import Ints
from csot.clean.inputs import as_array


@dataclass(frozen=True)
class Folds:
    """The fold of each row (N,), in which it is held out."""

    fold: Tensor
    n_folds: int

    @staticmethod
    def stratified(labels: Tensor, n_folds: int, seed: int, groups: Ints | None = None) -> Folds:
        """Deal the rows of each label, in random order, to the folds in turn.

        Rows with the same number in `groups` (N,) are kept in one fold; there are never more
        folds than groups. A single group cannot be divided and is ignored.
        """
        chance = np.random.default_rng(seed).random(len(labels))
        if groups is not None:
            members = np.unique(groups, return_inverse=True)[1]
            n_groups = int(members.max(initial=-1)) + 1
            if 1 < n_groups < len(labels):
                n_folds = min(n_folds, n_groups)
                dealt = _deal_groups(labels.numpy(), members, n_folds, chance)
                return Folds(torch.from_numpy(dealt), n_folds)
        order = torch.from_numpy(np.lexsort((chance, labels.numpy())))
        fold = torch.empty(len(labels), dtype=torch.int64)
        fold[order] = torch.arange(len(labels)) % n_folds
        return Folds(fold, n_folds)

    @staticmethod
    def nothing_held_out(n_rows: int) -> Folds:
        """One model, which all rows train."""
        return Folds(torch.full((n_rows,), -1), 1)

    def take(self, rows: Tensor) -> Folds:
        """The folds of some of the rows."""
        return Folds(self.fold[rows], self.n_folds)

    def training_mask(self) -> Tensor:
        """(N, K): 1 where row i trains the model of fold k."""
        return (self.fold[:, None] != torch.arange(self.n_folds)).float()

    def held_out(self, k: int) -> Tensor:
        """Indices of the rows of fold k."""
        return (self.fold == k).nonzero()[:, 0]


def _deal_groups(labels: Ints, groups: Ints, n_folds: int, chance: npt.NDArray[np.float64]) -> Ints:
    """Fold of each row (N,): whole groups, largest first, then single rows to even out the labels.

    Each group goes to the fold where it adds least to  sum_fc (n_fc / n_c)^2,  n_fc the rows of
    label c in fold f, and among equals to the smallest fold.
    """
    names, codes = np.unique(labels, return_inverse=True)
    sizes = np.bincount(groups)
    rows = np.lexsort((chance, groups))
    ends = np.cumsum(sizes)
    large = np.flatnonzero(sizes > 1)
    large = large[np.lexsort((chance[rows[ends[large] - 1]], -sizes[large]))]
    of_group = np.full(len(sizes), -1, dtype=np.int64)
    of_group[large] = _greedy(
        [codes[rows[ends[g] - sizes[g] : ends[g]]].tolist() for g in large],
        np.bincount(codes).tolist(),
        n_folds,
    )
    fold = of_group[groups]
    together = fold >= 0
    counts = np.zeros((n_folds, len(names)), dtype=np.int64)
    np.add.at(counts, (fold[together], codes[together]), 1)
    for code in range(len(names)):
        single = np.flatnonzero(~together & (codes == code))
        if len(single):
            single = single[np.argsort(chance[single])]
            # Seats of every fold, numbered from the rows it already has: the lowest are taken.
            seats = (counts[:, code, None] + np.arange(len(single))).ravel()
            owner = np.repeat(np.arange(n_folds), len(single))
            taken = owner[np.lexsort((counts.sum(1)[owner], seats))[: len(single)]]
            fold[single] = taken
            counts[:, code] += np.bincount(taken, minlength=n_folds)
    return fold


def _greedy(groups: list[list[int]], totals: list[int], n_folds: int) -> list[int]:
    """The fold of each group, given the label codes of its rows, in order.

    Plain lists: a group has few labels, for which array operations cost more than they do.
    """
    counts = [[0] * n_folds for _ in totals]
    size = [0] * n_folds
    chosen = []
    for codes in groups:
        cost = [0.0] * n_folds
        for code in set(codes):
            weight, number = codes.count(code) / totals[code] ** 2, counts[code]
            for f in range(n_folds):
                cost[f] += weight * number[f]
        # n_fc -> n_fc + n adds 2 n n_fc + n^2; what is the same for every fold is left out.
        best = min(zip(cost, size, range(n_folds), strict=True))[2]
        for code in codes:
            counts[code][best] += 1
        size[best] += len(codes)
        chosen.append(best)
    return chosen


# Rows that belong together, such as photographs of one patient: they share a fold.


def encode_groups(groups: Any, n_rows: int) -> Ints | None:
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


def join_groups(given: Ints | None, duplicates: Ints | None, n_folds: int) -> Ints | None:
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


def components(n_rows: int, first: Ints, second: Ints) -> Ints:
    """Number of the connected component of each row (N,), given pairs of rows."""
    graph = coo_array((np.ones(len(first), np.bool_), (first, second)), (n_rows, n_rows))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _stars(parts: list[Ints]) -> tuple[Ints, Ints]:
    """Pairs (first row of the group, row) for the rows of every group."""
    first, second = [], []
    for part in parts:
        rows = np.flatnonzero(part >= 0)
        _, leader, member = np.unique(part[rows], return_index=True, return_inverse=True)
        first.append(rows[leader[member]])
        second.append(rows)
    return np.concatenate(first), np.concatenate(second)


def check_groups(
    groups: Ints | None, labels: Ints, classes: npt.NDArray[Any], n_folds: int
) -> None:
    """Raise if the groups leave nothing to cross-fit, warn if they leave little.

    `groups` as `join_groups` returns them; `labels` (N,) class indices, -1 for none.
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
