"""The two coherence terms of the paper, Omega^P and Omega^L (Eq. SOT), weighted by kappa.

    Omega^P(Q) = -<S, (P*Q)(P*Q)'>,   Omega^L(Q) = -<S, (L*Q)(L*Q)'>

with S the similarity between samples and L the one-hot given labels. Both are quadratic forms, so
the gradient says everything: Omega(Q) = <grad Omega(Q), Q>/2, and along a line

    Omega((1-t)Q + tR) = (1-t)^2 Omega(Q) + t(1-t) <grad Omega(Q), R> + t^2 Omega(R).

Shapes: Q, P (B, C, N), classes before samples; labels (B, N), -1 where none is given.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from csot.ot.numerics import flush_, negligible
from csot.ot.similarity import Similarity

# Up to this many classes the label term rides along in the prediction term's matrix product;
# beyond, one centroid per class is cheaper.
STACKED_CLASSES = 48


@dataclass(frozen=True)
class Coherence:
    """kappa_P Omega^P + kappa_L Omega^L for a batch of problems."""

    similarity: Similarity
    weights: Tensor
    labels: Tensor | None
    kappa_prediction: float
    kappa_label: float

    def gradient(self, plan: Tensor) -> Tensor:
        """-2 kappa_P P*(S(P*Q)) - 2 kappa_L L*(S(L*Q)), a new tensor of the plan's shape."""
        prediction = self.kappa_prediction != 0
        label = self.labels is not None and self.kappa_label != 0
        n_classes = plan.shape[1]
        if prediction and label and n_classes <= STACKED_CLASSES:
            assert self.labels is not None
            stacked = plan.new_zeros(plan.shape[0], 2 * n_classes, plan.shape[2])
            flush_(
                torch.mul(self.weights, plan, out=stacked[:, :n_classes]), negligible(plan.dtype)
            )
            index = self.labels.clamp(min=0)[:, None]
            stacked[:, n_classes:].scatter_(1, index, self._at_labels(plan)[:, None])
            smoothed = self.similarity.apply(stacked)
            own = smoothed[:, n_classes:].gather(1, index)[:, 0] * (self.labels >= 0)
            return self._add_label_part(self._prediction_part(smoothed[:, :n_classes]), own)
        gradient = (
            self._prediction_part(
                self.similarity.apply(flush_(self.weights * plan, negligible(plan.dtype)))
            )
            if prediction
            else torch.zeros_like(plan)
        )
        if label:
            assert self.labels is not None
            own = self.similarity.apply_within(self._at_labels(plan), self.labels, n_classes)
            self._add_label_part(gradient, own)
        return gradient

    def _prediction_part(self, smoothed: Tensor) -> Tensor:
        return smoothed.mul_(self.weights).mul_(-2 * self.kappa_prediction)

    def _add_label_part(self, gradient: Tensor, own: Tensor) -> Tensor:
        assert self.labels is not None
        index = self.labels.clamp(min=0)[:, None]
        return gradient.scatter_add_(1, index, (-2 * self.kappa_label * own)[:, None])

    def _at_labels(self, plan: Tensor) -> Tensor:
        """Q_{i, y_i}, zero where no label is given: (B, N)."""
        assert self.labels is not None
        index = self.labels.clamp(min=0)[:, None]
        return plan.gather(1, index)[:, 0] * (self.labels >= 0)
