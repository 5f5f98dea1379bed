"""Coherence under the cosine similarity, without the N x N matrix: S = FF' with a zero diagonal.

With rows of F of norm one the moments of a plan are one centroid per class and term, M = X F with
X = P*Q, from which follow

    Omega^P(Q) = -|M|^2 + <P^2, Q^2>,   grad Omega^P(Q) = -2 P*(M F') + 2 P^2*Q,

and the same for Omega^L with L in place of P: O(N D C), linear in N. F itself is not computed: P
and L, which have fewer columns than the features, are divided by the norms instead. A zero feature
vector has similarity zero to all samples.

Up to `STACKED_CLASSES` the label term is stacked into the same matrix product. Beyond, each row
contributes only to the centroid of its own class: O(N D).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from csot.ot.coherence.terms import Terms
from csot.ot.execution import Execution
from csot.ot.numerics import CHUNK, chunks, dot, flush_, inverse_or_zero, negligible

STACKED_CLASSES = 128

FEW_CENTROIDS = 48
"""Up to this many, of both terms together, products with samples are faster transposed."""


class CosineCoherence:
    """kappa_P Omega^P + kappa_L Omega^L from features (B, N, D) and their norms (B, N)."""

    def __init__(self, features: Tensor, norms: Tensor, terms: Terms, execution: Execution) -> None:
        self._features = features
        self._reduce = execution.reduce
        workspace = execution.workspace
        weights, labels = terms.weights, terms.given
        batch, n_classes, n = weights.shape
        stacked = labels is not None and n_classes <= STACKED_CLASSES
        scale = inverse_or_zero(norms)
        # sqrt(kappa) P/|f| and, if stacked, sqrt(kappa) L/|f|: (B, terms, C, N).
        shape = (batch, terms.has_prediction + stacked, n_classes, n)
        self._factors = workspace.empty(shape, scale.dtype, scale.device)
        self._scratch = workspace.empty_like(weights)
        self._part = scale.new_empty(self._factors[..., :CHUNK].numel())
        self._own_class: _OwnClass | None = None
        # kappa_P max P^2 + kappa_L over all shards, so that all take the same decisions.
        largest = float(self._reduce.max(weights.amax().reshape(1)))
        self._max_weight = terms.kappa_label + terms.kappa_prediction * largest**2
        if terms.has_prediction:
            rooted = scale * terms.kappa_prediction**0.5
            torch.mul(weights, rooted[:, None], out=self._factors[:, 0])
        # 2 kappa_P P^2 + 2 kappa_L L^2, the part of the diagonal of FF': (B, C, N).
        self._own = torch.mul(weights, weights, out=workspace.empty_like(weights))
        self._own.mul_(2 * terms.kappa_prediction)
        if labels is not None:
            index, given = labels.clamp(min=0)[:, None], (labels >= 0).to(scale.dtype)
            self._own.scatter_add_(1, index, given[:, None] * (2 * terms.kappa_label))
            rooted = scale.mul_(given) * terms.kappa_label**0.5
            if stacked:
                self._factors[:, -1].zero_().scatter_(1, index, rooted[:, None])
            else:
                self._own_class = _OwnClass(index, rooted, n_classes)
        if not bool(norms.all()):
            self._own.mul_((norms > 0)[:, None])

    def moments(self, plan: Tensor) -> Tensor:
        """Centroids (B, K, D) of the terms, concatenated."""
        total: Tensor | None = None
        for part in chunks(plan.shape[-1]):
            features, factors = self._features[:, part], self._factors[..., part]
            weighted = torch.mul(factors, plan[:, None, :, part], out=self._space(*factors.shape))
            found = flush_(weighted, negligible(plan.dtype)).flatten(1, 2) @ features
            if self._own_class is not None:
                sums = self._own_class.sums(features, plan[..., part], part)
                found = torch.cat([found, sums], 1)
            total = found if total is None else total.add_(found)
        assert total is not None
        return self._reduce.sum(total)

    def value(self, moments: Tensor, plan: Tensor) -> Tensor:
        diagonal = dot(torch.mul(self._own, plan, out=self._scratch), plan)
        return self._reduce.sum(diagonal) / 2 - dot(moments, moments)

    def gradient(self, moments: Tensor, plan: Tensor) -> Tensor:
        n_terms, n_classes = self._factors.shape[1:3]
        dense, rest = moments[:, : n_terms * n_classes], moments[:, n_terms * n_classes :]
        gradient = torch.mul(self._own, plan, out=self._scratch)
        for part in chunks(plan.shape[-1]):
            features, target = self._features[:, part], gradient[..., part]
            factors = self._factors[..., part]
            products = self._products(dense, features).view(factors.shape)
            for product, factor in zip(products.unbind(1), factors.unbind(1), strict=True):
                target.addcmul_(product, factor, value=-2)
            if self._own_class is not None:
                self._own_class.add_gradient(features, rest, part, target)
        return gradient

    def upper_bound(self, sizes: Tensor) -> Tensor:
        """A weighted sum of unit vectors is at most the sum of weights: |M_k| <= sum_i |X_ki|."""
        return self._max_weight * sizes.double().square().sum(-1)

    def _products(self, centroids: Tensor, features: Tensor) -> Tensor:
        """<f_i, M_k>: (B, K, n). For few centroids stored sample by sample, which BLAS prefers."""
        if centroids.shape[1] > FEW_CENTROIDS:
            space = self._space(len(features), centroids.shape[1], features.shape[1])
            return torch.bmm(centroids, features.mT, out=space)
        space = self._space(len(features), features.shape[1], centroids.shape[1])
        return torch.bmm(features, centroids.mT, out=space).mT

    def _space(self, *shape: int) -> Tensor:
        """Scratch memory for one chunk, reused each time."""
        return self._part[: math.prod(shape)].view(shape)


class _OwnClass:
    """The label term for many classes: a row interacts with its own class only."""

    def __init__(self, index: Tensor, factors: Tensor, n_classes: int) -> None:
        self._index = index
        self._factors = factors
        self._n_classes = n_classes
        first = torch.arange(len(index), device=index.device)[:, None] * n_classes
        self._group = index[:, 0] + first

    def sums(self, features: Tensor, plan: Tensor, part: slice) -> Tensor:
        """Weighted sum of the features of each class: (B, C, D)."""
        weight = plan.gather(1, self._index[..., part])[:, 0] * self._factors[:, part]
        weighted = (features * weight[..., None]).flatten(0, 1)
        sums = features.new_zeros(len(features) * self._n_classes, features.shape[-1])
        sums.index_add_(0, self._group[:, part].flatten(), weighted)
        return sums.view(len(features), self._n_classes, -1)

    def add_gradient(self, features: Tensor, sums: Tensor, part: slice, target: Tensor) -> None:
        """Subtract 2 <f_i, sum of its class> from the row's entry of its class."""
        own = sums.flatten(0, 1)[self._group[:, part]]
        products = torch.linalg.vecdot(features, own) * self._factors[:, part]
        target.scatter_add_(1, self._index[..., part], products.mul_(-2)[:, None])
