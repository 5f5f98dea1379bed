"""What else is odd about the samples of a run: duplicates, conflicts, outliers, rare classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from csot._core.array_types import Bools, Ints
from csot.runs.findings import NO_CLASS_FITS, TOO_FEW_ROWS
from csot.runs.run import Run

RARE = 5
"""A class with fewer rows is called rare."""
SEPARATED = 0.65
"""Balanced accuracy within a pair of classes up to which they look like one; chance is 1/2."""
TOGETHER = 0.7
"""Share of the rows of both that must be predicted as one of the two."""
FEWEST = 10
"""Rows that each of the two must have."""


@dataclass(frozen=True, eq=False)
class Oddities:
    """Masks (N,) of the rows of a run."""

    group: Ints
    """The group of near-duplicates of each row, or -1."""
    conflict: Bools
    """A near-duplicate has another given label."""
    stranger: Bools
    """No class fits."""
    rare: Bools
    """The given class has too few rows."""

    @property
    def duplicate(self) -> Bools:
        """Rows that have a near-duplicate."""
        found: Bools = self.group >= 0
        return found

    def conflicts(self) -> list[Ints]:
        """The rows of each group that holds two labels, the largest group first."""
        rows = np.flatnonzero(self.conflict)
        rows = rows[np.argsort(self.group[rows], kind="stable")]
        starts = np.flatnonzero(np.diff(self.group[rows])) + 1
        return sorted(np.split(rows, starts), key=len, reverse=True) if len(rows) else []


@dataclass(frozen=True)
class Twins:
    """Two classes that the features do not tell apart."""

    first: int
    second: int
    rows: int
    """Rows that carry either label."""


def find_oddities(run: Run, ids: pd.Index, given: Ints, notes: Sequence[str]) -> Oddities:
    """Find what is odd among the rows `ids`; `given` holds class numbers, -1 for no label."""
    groups = run.read_duplicates()
    group = np.full(len(ids), -1, dtype=np.int64)
    if groups is not None:
        group = groups.reindex(ids).fillna(-1).to_numpy(dtype=np.int64)
    counts = np.bincount(given[given >= 0], minlength=1)
    few = (given >= 0) & (counts[np.maximum(given, 0)] < RARE)
    noted = np.array([note == TOO_FEW_ROWS for note in notes], dtype=np.bool_)
    return Oddities(
        group=group,
        conflict=in_conflict(group, given),
        stranger=np.array([note == NO_CLASS_FITS for note in notes], dtype=np.bool_),
        rare=few | noted,
    )


def in_conflict(group: Ints, given: Ints) -> Bools:
    """Rows (N,) of groups that hold more than one given label; rows without a label have none."""
    kept = (group >= 0) & (given >= 0)
    n_groups = int(group.max(initial=-1)) + 1
    low, high = np.full(n_groups + 1, np.iinfo(np.int64).max), np.full(n_groups + 1, -1)
    np.minimum.at(low, group[kept], given[kept])
    np.maximum.at(high, group[kept], given[kept])
    found: Bools = kept & (low < high)[group]
    return found


def find_twins(given: Ints, predicted: Ints) -> list[Twins]:
    """Pairs of classes that may be one class under two names, most rows first.

    `predicted` does not know the given label. Among the rows that carry one of two labels and
    are predicted as one of the two, let n_ab be given a and predicted b. The pair looks like one
    class if

        (n_aa / (n_aa + n_ab) + n_bb / (n_ba + n_bb)) / 2 <= SEPARATED

    and most rows of either label are among them.
    """
    both = (given >= 0) & (predicted >= 0)
    pairs = np.stack([given[both], predicted[both]])
    cells, counts = np.unique(pairs, axis=1, return_counts=True)
    number = dict(zip(map(tuple, cells.T.tolist()), counts.tolist(), strict=True))
    size = np.bincount(given[both], minlength=int(pairs.max(initial=-1)) + 1)
    found = []
    for first, second in {(min(pair), max(pair)) for pair in number if pair[0] != pair[1]}:
        aa, bb = number.get((first, first), 0), number.get((second, second), 0)
        ab, ba = number.get((first, second), 0), number.get((second, first), 0)
        together = min(
            (own + other) / max(int(size[label]), 1)
            for own, other, label in ((aa, ab, first), (bb, ba, second))
        )
        if together < TOGETHER or min(aa + ab, bb + ba) < FEWEST:
            continue
        if (aa / (aa + ab) + bb / (bb + ba)) / 2 <= SEPARATED:
            found.append(Twins(first, second, int(size[first] + size[second])))
    return sorted(found, key=lambda twins: (-twins.rows, twins.first, twins.second))
