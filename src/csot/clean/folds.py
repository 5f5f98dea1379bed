"""Cross-fitting: every row is judged only by models that have not seen its label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Folds:
    """The fold of each row (N,), in which it is held out."""

    fold: Tensor
    n_folds: int

    @staticmethod
    def stratified(labels: Tensor, n_folds: int, seed: int) -> Folds:
        """Deal the rows of each label, in random order, to the folds in turn."""
        chance = np.random.default_rng(seed).random(len(labels))
        order = torch.from_numpy(np.lexsort((chance, labels.numpy())))
        fold = torch.empty(len(labels), dtype=torch.int64)
        fold[order] = torch.arange(len(labels)) % n_folds
        return Folds(fold, n_folds)

    def training_mask(self) -> Tensor:
        """(N, K): 1 where row i trains the model of fold k."""
        return (self.fold[:, None] != torch.arange(self.n_folds)).float()

    def held_out(self, k: int) -> Tensor:
        """Indices of the rows of fold k."""
        return (self.fold == k).nonzero()[:, 0]
