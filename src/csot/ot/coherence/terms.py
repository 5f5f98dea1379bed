"""The two coherence terms of the paper, Omega^P and Omega^L (Eqs. 4 and 5), weighted by kappa.

    Omega^P(Q) = -<S, (P*Q)(P*Q)'>,   Omega^L(Q) = -<S, (L*Q)(L*Q)'>

with S the similarity between samples and L the one-hot given labels. Both are quadratic forms, so
the gradient is linear in Q, Omega(Q) = <grad Omega(Q), Q>/2, and along a line

    Omega((1-t)Q + tR) = (1-t)^2 Omega(Q) + t(1-t) <grad Omega(Q), R> + t^2 Omega(R).

Applying S dominates the cost, so it is split in two. `moments` are linear in Q and suffice for
the value; the gradient follows from them, and is not needed at the last plan of a solution.

Shapes: Q, P (B, C, N); labels (B, N), -1 where none is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from csot.ot.coherence.similarity import Similarity
from csot.ot.execution import Reduce
from csot.ot.numerics import dot, flush_, negligible


class Coherence(Protocol):
    """kappa_P Omega^P + kappa_L Omega^L for a batch of problems."""

    def moments(self, plan: Tensor) -> Tensor:
        """A new tensor (B, ...), linear in the plan, from which Omega follows."""

    def value(self, moments: Tensor, plan: Tensor) -> Tensor:
        """Omega(Q) as float64: (B,)."""

    def gradient(self, moments: Tensor, plan: Tensor) -> Tensor:
        """grad Omega(Q), (B, C, N); overwritten by the next call of `value` or `gradient`."""

    def upper_bound(self, sizes: Tensor) -> Tensor:
        """A bound on |Omega(D)| for any D with sum_i |D_ki| = sizes (B, C): (B,)."""


@dataclass(frozen=True)
class Terms:
    """The weights of the two terms: P (or -log P) and the given labels."""

    weights: Tensor
    kappa_prediction: float
    labels: Tensor | None
    kappa_label: float

    @property
    def has_prediction(self) -> bool:
        return self.kappa_prediction != 0

    @property
    def given(self) -> Tensor | None:
        """The labels, or None if Omega^L has no weight."""
        return None if self.kappa_label == 0 else self.labels


@dataclass(frozen=True)
class OperatorCoherence:
    """Coherence for any operator S: the moments are the gradient itself."""

    similarity: Similarity
    terms: Terms
    reduce: Reduce

    def moments(self, plan: Tensor) -> Tensor:
        """-2 kappa_P P*(S(P*Q)) - 2 kappa_L L*(S(L*Q))."""
        weights, labels = self.terms.weights, self.terms.given
        gradient = torch.zeros_like(plan)
        if self.terms.has_prediction:
            smoothed = self.similarity.apply(flush_(weights * plan, negligible(plan.dtype)))
            gradient.addcmul_(smoothed, weights, value=-2 * self.terms.kappa_prediction)
        if labels is not None:
            index, given = labels.clamp(min=0)[:, None], labels >= 0
            own = plan.gather(1, index)[:, 0] * given
            smoothed = self.similarity.apply_within(own, labels, plan.shape[1])
            gradient.scatter_add_(1, index, (-2 * self.terms.kappa_label * smoothed)[:, None])
        return gradient

    def value(self, moments: Tensor, plan: Tensor) -> Tensor:
        return self.reduce.sum(dot(moments, plan)) / 2

    def gradient(self, moments: Tensor, plan: Tensor) -> Tensor:
        return moments

    def upper_bound(self, sizes: Tensor) -> Tensor:
        """No bound is known, since S is arbitrary."""
        return torch.full_like(sizes[:, 0], torch.inf)
