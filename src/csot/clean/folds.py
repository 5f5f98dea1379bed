"""Cross-fitting: every row is judged only by models that have not seen its label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Folds:
    """The fold of each row (N,), in which it is held out."""

    fold: Tensor
    n_folds: int

    @staticmethod
    def stratified(
        labels: Tensor, n_folds: int, seed: int, groups: Integers | None = None
    ) -> Folds:
        """Deal the rows of each label, in random order, to the folds in turn.

        Rows with the same number in ``groups`` (N,) are kept in one fold; there are never more
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

    def take(self, rows: Tensor) -> Folds:
        """The folds of some of the rows."""
        return Folds(self.fold[rows], self.n_folds)

    def training_mask(self) -> Tensor:
        """(N, K): 1 where row i trains the model of fold k."""
        return (self.fold[:, None] != torch.arange(self.n_folds)).float()

    def held_out(self, k: int) -> Tensor:
        """Indices of the rows of fold k."""
        return (self.fold == k).nonzero()[:, 0]


def _deal_groups(
    labels: Integers, groups: Integers, n_folds: int, chance: npt.NDArray[np.float64]
) -> Integers:
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
