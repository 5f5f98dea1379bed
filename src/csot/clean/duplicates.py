"""Near-duplicates: rows so close together that a copy in another fold gives a label away.

A copy of a row carries the same label, right or wrong, so a model trained on the copy confirms it.

Exact copies are rows with equal features. In discrete features, such as a table of three
categories, or of a few rounded numbers, equal rows are common by chance and are not copies; see
`_are_copies`.

Rows i and j are near-duplicates if  d_ij <= r min(s_i, s_j),  s_i the distance from i to its
K-th nearest neighbour. In a neighbourhood of even density and dimension m, (d_j / d_K)^m is
distributed as the j-th of K - 1 uniform order statistics, which gives

    m = log 2 / median log(d_K / d_(K/2))        as Beta(K/2, K/2) has the median 1/2
    r = (N (K - 1))^(-1/m), at most 1/4          at most one pair is expected by chance

so that in few dimensions, where some points are always close, only next to equal rows count. Where
density is uneven, as in a table of categories and numbers, that is not enough, but chance pairs
have no gap: at least as many lie between r and 2 r as below r. So r is halved until the pairs below
it are at least twice as many as those between r and 2 r, that is, until half of them are copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from csot._core.array_types import Ints
from csot.clean.folds import components
from csot.clean.near_pairs import K, near_pairs

Hashes = npt.NDArray[np.uint64]

FARTHEST = 0.25
"""A near-duplicate is nearer than this share of the distance to the K-th neighbour."""
COMMON = 4
"""A row that occurs more often than this is a value of discrete features if most rows do."""
LARGEST_SHARE = 0.01
"""Groups of more rows than this share, and more than K, are not formed: they are chains, or a
common value such as a blank image."""
SEARCHED_COLUMNS = 64
"""Most columns searched; rows of wider tables are not equal by rounding."""
BLOCKS = 8
"""Blocks of columns that are hashed separately; half of them against the other half."""
ROWS_AT_A_TIME = 4096
NOTE = "a near-duplicate has another label"


@dataclass(frozen=True)
class Duplicates:
    """Group of near-duplicates of each row (N,), numbered from 0, or -1."""

    group: Ints

    @staticmethod
    def none(n_rows: int) -> Duplicates:
        """No row has a near-duplicate."""
        return Duplicates(np.full(n_rows, -1, dtype=np.int64))

    def add_notes(self, findings: pd.DataFrame, labels: Ints) -> None:
        """Say in `reason` and an empty `note` which rows have a near-duplicate of another label."""
        kept = (self.group >= 0) & (labels >= 0)
        n_groups = int(self.group.max(initial=-1)) + 1
        low, high = np.full(n_groups, labels.max(initial=0)), np.full(n_groups, -1)
        np.minimum.at(low, self.group[kept], labels[kept])
        np.maximum.at(high, self.group[kept], labels[kept])
        rows = kept & np.append(low < high, False)[self.group]
        note = findings["note"].to_numpy(dtype=object, copy=True)
        note[rows & (note == "")] = NOTE
        findings["note"] = note
        reason = findings["reason"].to_numpy(dtype=object, copy=True)
        reason[rows] += f" {NOTE[0].upper()}{NOTE[1:]}."
        findings["reason"] = reason


@dataclass(frozen=True)
class DuplicateCounts:
    """Rows that have a near-duplicate, their groups, and pairs where both have a label."""

    rows: int
    groups: int
    pairs: int
    pairs_with_different_labels: int


def count_duplicates(group: Ints, labels: pd.Series[Any]) -> DuplicateCounts:
    """Group of each row (N,) or -1, and its label (N,), which may be missing."""
    codes = pd.factorize(labels)[0]
    kept = (group >= 0) & (codes >= 0)
    cells = np.stack([group[kept], codes[kept]])
    same = _pairs_within(np.unique(cells, axis=1, return_counts=True)[1])
    pairs = _pairs_within(np.bincount(group[kept]))
    n_groups = int(group.max(initial=-1)) + 1
    return DuplicateCounts(int((group >= 0).sum()), n_groups, pairs, pairs - same)


def find_duplicates(features: Tensor, labels: Ints, seed: int) -> Duplicates:
    """Groups of near-duplicates among the rows of `features` (N, D), float32 and finite.

    `labels` (N,) class indices or -1: a group that would hold every row of a class is not formed,
    because no model could learn that class without it. Equal rows are found by their hashes. Other
    pairs are searched within random cells, exactly up to 256 rows; see `near_pairs`.
    """
    n_rows = len(features)
    varies = (features != features[:1]).any(0)
    columns = features if bool(varies.all()) else features[:, varies]
    if columns.shape[1] < 2 or n_rows < 3:
        return Duplicates.none(n_rows)
    hashes = _block_hashes(columns.numpy(), np.random.default_rng(seed))
    _, first, value = np.unique(hashes.sum(1), return_index=True, return_inverse=True)
    are_copies = len(first) == n_rows or (
        _are_copies(hashes, value) and not _are_rounded(columns.numpy(), value)
    )
    if not are_copies and 2 * len(first) < n_rows:
        return Duplicates.none(n_rows)
    one, other = _near(columns[torch.from_numpy(first)], seed)
    limit = max(K, int(LARGEST_SHARE * n_rows))
    copies = _at_most(limit if are_copies else 0, value)
    of_value = components(len(first), one, other)
    joined = of_value[value]
    # A component that is too large falls back to its exact copies.
    copies = np.where(copies >= 0, copies + len(first), -1)
    group = np.where(_sizes(joined) <= limit, joined, copies)
    if not are_copies:  # only rows that are near to different ones
        group = np.where((_sizes(of_value) > 1)[value], group, -1)
    return Duplicates(_numbered(_spare_classes(group, labels)))


def _block_hashes(columns: npt.NDArray[np.float32], rng: np.random.Generator) -> Hashes:
    """(N, B) hashes of random blocks of columns; their sum is a hash of the whole row.

    Multilinear over the bits of the numbers, modulo 2^64.
    """
    n_rows, n_columns = columns.shape
    n_blocks = min(BLOCKS, n_columns)
    order = rng.permutation(n_columns)
    factors = rng.integers(0, 2**64, n_columns, dtype=np.uint64) | np.uint64(1)
    starts = np.linspace(0, n_columns, n_blocks, endpoint=False).astype(np.int64)
    hashes = np.empty((n_rows, n_blocks), dtype=np.uint64)
    for start in range(0, n_rows, ROWS_AT_A_TIME):
        part = slice(start, start + ROWS_AT_A_TIME)
        numbers = columns[part][:, order] + np.float32(0)  # -0.0 equals 0.0
        bits = numbers.view(np.uint32).astype(np.uint64)
        bits *= factors
        hashes[part] = np.add.reduceat(bits, starts, axis=1)
    return hashes


def _are_copies(hashes: Hashes, value: Ints) -> bool:
    """Whether equal rows are copies, rather than values that discrete features take by chance.

    If the halves of the columns were independent, (pairs equal in the one) x (pairs equal in the
    other) / (all pairs) would be equal in both by chance. Copies are at least twice as many, and
    most rows do not have many.
    """
    n_rows, n_blocks = hashes.shape
    if np.median(_sizes(value)) > COMMON:
        return False
    equal = _pairs_within(np.bincount(value))
    by_chance = []
    for shift in range(n_blocks):
        half = np.roll(np.arange(n_blocks) < n_blocks // 2, shift)
        by_chance.append(
            np.prod([_equal_pairs(hashes[:, side].sum(1)) for side in (half, ~half)], dtype=float)
        )
    return bool(2 * np.mean(by_chance) <= equal * n_rows * (n_rows - 1) / 2)


def _are_rounded(columns: npt.NDArray[np.float32], value: Ints) -> bool:
    """Whether equal rows are a matter of rounding, such as lengths in whole centimetres.

    If they are, pairs that differ by one step in one column are about twice as many as equal ones,
    because there are two directions. Copies have no such neighbours: equal rows are copies if they
    are twice as many as the pairs one step apart. Columns of two values have no steps.
    """
    n_columns = columns.shape[1]
    if n_columns > SEARCHED_COLUMNS:
        return False
    steps = np.stack([np.unique(column, return_inverse=True)[1] for column in columns.T], axis=1)
    neighbours = [
        _pairs_one_step_apart(np.delete(steps, k, axis=1), steps[:, k])
        for k in range(n_columns)
        if steps[:, k].max() > 1
    ]
    equal = _pairs_within(np.bincount(value))
    return bool(equal < 2 * np.mean(neighbours or [0]))


def _pairs_one_step_apart(others: Ints, steps: Ints) -> int:
    """Pairs of rows that are equal in the ``others`` (N, D), and differ by one of the ``steps``."""
    place = np.unique(others, axis=0, return_inverse=True)[1].ravel()
    width = int(steps.max()) + 2
    cell, count = np.unique(place * width + steps, return_counts=True)
    next_to = cell[1:] == cell[:-1] + 1  # a gap of one at the end of each place
    return int((count[1:] * count[:-1])[next_to].sum())


def _near(rows: Tensor, seed: int) -> tuple[Ints, Ints]:
    """Pairs of near-duplicates among rows that are all different."""
    found = near_pairs(rows, FARTHEST, seed)
    if found is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    spread = np.log(found.outer / found.middle)
    dimension = np.log(2) / max(float(np.median(spread)), 1e-6)
    radius = min(FARTHEST, float((len(rows) * (K - 1)) ** (-1 / dimension)))
    ratio = found.distance / np.minimum(found.outer[found.one], found.outer[found.other])
    near = ratio <= radius
    while 2 * radius <= FARTHEST and near.any():
        if near.sum() >= 2 * ((ratio <= 2 * radius) & ~near).sum():
            break
        radius /= 2
        near = ratio <= radius
    return found.one[near], found.other[near]


def _sizes(group: Ints) -> Ints:
    """Number of rows in the group of each row (N,)."""
    sizes: Ints = np.bincount(group)[group]
    return sizes


def _at_most(limit: int, group: Ints) -> Ints:
    """The groups of two up to `limit` rows; -1 for all other rows."""
    sizes = _sizes(group)
    return np.where((sizes > 1) & (sizes <= limit), group, -1)


def _spare_classes(group: Ints, labels: Ints) -> Ints:
    """Dissolve groups that hold every row of some class."""
    present = labels >= 0
    if not present.any():
        return group
    n_classes = int(labels.max()) + 1
    lowest = np.full(n_classes, np.iinfo(np.int64).max)
    highest = np.full(n_classes, -1)
    np.minimum.at(lowest, labels[present], group[present])
    np.maximum.at(highest, labels[present], group[present])
    confined = highest[(lowest == highest) & (highest >= 0)]
    return np.where(np.isin(group, confined), -1, group)


def _numbered(group: Ints) -> Ints:
    """Groups of at least two rows, numbered by first appearance; -1 for all other rows."""
    kept = np.flatnonzero(group >= 0)
    _, first, member, size = np.unique(
        group[kept], return_index=True, return_inverse=True, return_counts=True
    )
    first = np.where(size > 1, first, len(group))
    rank = np.argsort(np.argsort(first))
    numbered = np.full(len(group), -1, dtype=np.int64)
    numbered[kept] = np.where(size > 1, rank, -1)[member]
    return numbered


def _equal_pairs(values: Hashes) -> int:
    return _pairs_within(np.unique(values, return_counts=True)[1])


def _pairs_within(sizes: Ints) -> int:
    return int((sizes * (sizes - 1) // 2).sum())
