"""What the given labels say about the truth: the likelihood p(y_i | true class k) of each row.

    regular row     T[k, y_i], T the noise matrix (rows true, columns given)
    no label        1 for every k: it says nothing, and every loss and gradient below vanishes
    verified row    [k = v_i]: somebody has looked

The model of the whole package `clean` is  p(y | x) = sum_k p_k(x) p(y | k).

Arrays (N, C) of many rows and few classes are stored by class (`by_class`): sums over the classes
then run over long vectors, which for ten classes is ten times faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


def by_class(rows: Tensor) -> Tensor:
    """The same (N, C) values, stored by class."""
    return rows.T.contiguous().T


def softmax_rows(logits: Tensor) -> Tensor:
    """softmax over the classes of logits (N, C), stored by class.

    torch's own softmax over the last dimension is slow for rows shorter than a vector register.
    """
    return logits.T.contiguous().softmax(0).T


@dataclass(frozen=True)
class Evidence:
    """Given labels (N,) and verified ones (N,), both -1 where there is none."""

    given: Tensor
    verified: Tensor
    n_classes: int

    @staticmethod
    def of_labels(labels: Tensor, n_classes: int) -> Evidence:
        """Labels none of which is verified."""
        return Evidence(labels, torch.full_like(labels, -1), n_classes)

    def __len__(self) -> int:
        return len(self.given)

    def take(self, rows: Tensor | slice) -> Evidence:
        """The evidence of some of the rows."""
        return Evidence(self.given[rows], self.verified[rows], self.n_classes)

    # EM asks for these rows hundreds of times.

    @cached_property
    def _labelled(self) -> Tensor:
        return (self.given >= 0).nonzero()[:, 0]

    @cached_property
    def _columns(self) -> Tensor:
        return self.given.clamp(min=0)

    @cached_property
    def _unlabelled(self) -> Tensor:
        return (self.given < 0).nonzero()[:, 0]

    @cached_property
    def _locked(self) -> Tensor:
        return (self.verified >= 0).nonzero()[:, 0]

    def sample(self, n_rows: int, seed: int = 0) -> Tensor:
        """Indices of that many random rows and of all verified ones, in order."""
        chosen = self.verified >= 0
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        chosen[order[:n_rows]] = True
        return chosen.nonzero()[:, 0]

    def likelihood(self, noise: Tensor) -> Tensor:
        """p(y_i | k) as a new (N, C) tensor, stored by class, for a noise matrix (C, C)."""
        # Where there is no label, the column of class 0 stands in until it is overwritten.
        # `index_select` is the faster one for float32 and four times slower for float64.
        if noise.dtype == torch.float64:
            values = noise.gather(1, self._columns.expand(len(noise), -1)).T
        else:
            values = noise.index_select(1, self._columns).T
        if len(self._unlabelled):
            values[self._unlabelled] = 1.0
        if len(self._locked):
            classes = self.verified[self._locked]
            values[self._locked] = torch.nn.functional.one_hot(classes, self.n_classes).to(
                values.dtype
            )
        return values

    def labels_to_learn(self) -> Tensor:
        """The verified label where there is one, else the given one."""
        return torch.where(self.verified >= 0, self.verified, self.given)

    def labels_to_stratify(self) -> Tensor:
        """The given label; the verified one where none is given, or where no label names its class.

        Not `labels_to_learn`: verifying a row must not deal the other rows to new folds, or each
        decision of a reviewer would change verdicts by chance.
        """
        is_new = (self.verified >= 0) & ~torch.isin(self.verified, self.given)
        return torch.where(is_new | (self.given < 0), self.verified, self.given)

    def counts(self, posterior: Tensor) -> Tensor:
        """Expected number of rows of true class k that were given label j: (C, C)."""
        given = self.given
        if len(self._unlabelled):
            given, posterior = given[self._labelled], posterior[self._labelled]
        counts = posterior.new_zeros(self.n_classes, self.n_classes)
        return counts.index_add_(1, given, posterior.T)


def posterior(probs: Tensor, likelihood: Tensor) -> tuple[Tensor, Tensor]:
    """q_ik = p_k(x_i) p(y_i|k) / m_i and the marginal likelihood m_i itself, (N, C) and (N,)."""
    joint = probs * likelihood
    marginal = joint.sum(-1).clamp_min(torch.finfo(probs.dtype).tiny)
    return joint / marginal[..., None], marginal


def marginal_likelihood(probs: Tensor, likelihood: Tensor) -> Tensor:
    """m_i (N,) of `posterior` alone."""
    return (probs * likelihood).sum(-1).clamp_min(torch.finfo(probs.dtype).tiny)


def log_probs(probs: Tensor) -> Tensor:
    """log p (N, C) of given probabilities, finite where some are zero.

    A forest of 100 trees says 0 where it means "less than 1 %", a network hardly ever: zeros count
    as half of the smallest value above zero.
    """
    smallest = torch.where(probs > 0, probs, 1.0).min() if probs.numel() else probs.new_tensor(1.0)
    return probs.clamp_min(float((smallest / 2).clamp(1e-30, 0.01))).log()
