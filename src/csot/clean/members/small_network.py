"""A small network as a member: one hidden layer, all folds trained at once by batched products."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from csot.clean.features import Basis
from csot.clean.folds import Folds
from csot.clean.members.member import FirstPass, Fit, Member, TrainingSet
from csot.clean.members.probe import logit_gradient

HIDDEN = 256
DROPOUT = 0.5
EPOCHS = 4
BATCH = 512
LEAST_STEPS = 400
RATE = 4e-3
DECAY = 1e-2


@dataclass(frozen=True)
class Networks:
    """K networks of one hidden layer: weights (K, D, H), (K, 1, H), (K, H, C), (K, 1, C)."""

    inner: Tensor
    inner_bias: Tensor
    outer: Tensor
    outer_bias: Tensor

    def logits(self, x: Tensor, k: int) -> Tensor:
        """Logits of network k: (N, D) -> (N, C), in the precision of x."""
        inner, inner_bias, outer, outer_bias = (
            part[k].to(x.dtype)
            for part in (self.inner, self.inner_bias, self.outer, self.outer_bias)
        )
        return (x @ inner + inner_bias).relu() @ outer + outer_bias

    def mean_logits(self, x: Tensor) -> Tensor:
        """Their mean, for rows that trained none of them."""
        return torch.stack([self.logits(x, k) for k in range(len(self.inner))]).mean(0)

    def held_out_logits(self, x: Tensor, folds: Folds) -> Tensor:
        logits = x.new_empty(len(x), self.outer.shape[2])
        for k in range(folds.n_folds):
            rows = folds.held_out(k)
            logits[rows] = self.logits(x[rows], k)
        return logits


def fit_networks(
    x: Tensor, folds: Folds, likelihood: Tensor, seed: int, trusted: Tensor | None = None
) -> Networks:
    """Adam with a one-cycle rate on the marginal likelihood, the noise matrix fixed.

    `trusted` (N, K): rows whose labels network k learns from; all by default.
    """
    generator = torch.Generator().manual_seed(seed)
    n, dim = x.shape
    n_folds, n_classes = folds.n_folds, likelihood.shape[1]
    batch = min(BATCH, max(32, n // 8))
    epochs = max(EPOCHS, round(LEAST_STEPS * min(batch, n) / n))
    informative = (likelihood.amax(1) > likelihood.amin(1)).float()
    mask = folds.training_mask() * informative[:, None]
    if trusted is not None:
        mask *= trusted
    parts = [
        torch.randn(n_folds, dim, HIDDEN, generator=generator) / dim**0.5,
        torch.randn(n_folds, 1, HIDDEN, generator=generator) * 0.1,
        torch.randn(n_folds, HIDDEN, n_classes, generator=generator) * 0.1 / HIDDEN**0.5,
        torch.zeros(n_folds, 1, n_classes),
    ]
    moments = [torch.zeros_like(part) for part in (*parts, *parts)]
    steps = [torch.zeros(()) for _ in parts]
    total = epochs * math.ceil(n / batch)
    step = 0
    for _ in range(epochs):
        order = torch.randperm(n, generator=generator)
        for rows in torch.split(order, batch):
            step += 1
            rise, fall = step / (0.2 * total), (total - step) / (0.8 * total) + 1e-3
            gradients = _gradients(parts, x[rows], mask[rows], likelihood[rows], generator)
            _update(parts, gradients, moments, steps, RATE * min(rise, fall, 1.0))
    return Networks(*parts)


def _update(
    parts: list[Tensor],
    gradients: list[Tensor],
    moments: list[Tensor],
    steps: list[Tensor],
    rate: float,
) -> None:
    """One step of AdamW, in place; weights decay, biases do not.

    As a function, because the class of that name imports the compiler of torch, which takes
    more time than cleaning a small data set.
    """
    for first, decay in ((0, DECAY), (1, 0.0)):
        adamw(
            parts[first::2],
            gradients[first::2],
            moments[:4][first::2],
            moments[4:][first::2],
            [],
            steps[first::2],
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.99,
            lr=rate,
            weight_decay=decay,
            eps=1e-8,
            maximize=False,
        )


def _gradients(
    parts: list[Tensor], x: Tensor, mask: Tensor, likelihood: Tensor, generator: torch.Generator
) -> list[Tensor]:
    """Back-propagation by hand: the loss's gradient in the logits is known in closed form.

    Dropout leaves out the same hidden units for all rows and folds of a batch, so that they need
    not be computed: half of the cost.
    """
    inner, inner_bias, outer, outer_bias = parts
    n_hidden = inner.shape[2]
    n_kept = round((1 - DROPOUT) * n_hidden)
    kept = torch.randperm(n_hidden, generator=generator)[:n_kept].sort().values
    factor = n_hidden / n_kept
    hidden = torch.baddbmm(
        inner_bias.index_select(2, kept),
        x.expand(len(inner), -1, -1),
        inner.index_select(2, kept),
    ).relu_()
    kept_outer = factor * outer.index_select(1, kept)
    logits = (kept_outer.mT @ hidden.mT).add_(outer_bias.mT)
    slopes = logit_gradient(logits, likelihood)[1].mul_(mask.T[:, None] / len(x)).mT
    back = (slopes @ kept_outer.transpose(1, 2)).mul_(hidden > 0)
    gradients = [torch.zeros_like(part) for part in parts[:3]]
    gradients[0].index_copy_(2, kept, x.T @ back)
    gradients[1].index_copy_(2, kept, back.sum(1, keepdim=True))
    gradients[2].index_copy_(1, kept, factor * (hidden.transpose(1, 2) @ slopes))
    return [*gradients, slopes.sum(1, keepdim=True)]


@dataclass(frozen=True)
class NetworkPredictor:
    """The mean of the folds' networks, on principal axes."""

    basis: Basis
    networks: Networks

    def __call__(self, rows: Tensor) -> Tensor:
        return self.networks.mean_logits(self.basis.coordinates(rows))


class NetworkMember:
    """A network of one hidden layer on the principal coordinates."""

    name = "network"
    stage = "network"

    def applies(self, training: TrainingSet) -> bool:
        """Always."""
        return True

    def fit(self, training: TrainingSet, first: FirstPass, noise: Tensor) -> Fit:
        """One network per fold, trained on the rows that are trusted."""
        x, folds = training.basis.row_coordinates, training.folds
        likelihood = training.evidence.likelihood(noise)
        networks = fit_networks(x, folds, likelihood, training.seed, first.trusted)
        predictor = NetworkPredictor(training.light, networks)
        return Fit([Member("network", networks.held_out_logits(x, folds), predictor)], noise)
