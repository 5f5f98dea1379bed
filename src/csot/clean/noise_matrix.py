"""The noise matrix T[k, j] = p(given j | true k), by MAP expectation-maximisation.

E: posterior of the truth from out-of-fold probabilities. M: T from the expected counts, shrunk
towards "the same rate for every class, spread evenly over the others" by as much as the evidence
of the counts themselves asks for. The right label stays the likeliest of each row of T: without
that, classes could swap names. The T of a training run is made in `training.results`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from csot.clean.likelihood import Evidence, by_class, posterior

STRENGTHS = 10.0 ** torch.arange(0, 6.5, 0.5, dtype=torch.float64)
"""Shrinkage, in rows per class, among which the evidence chooses."""
_LGAMMA = torch.lgamma(STRENGTHS)


def first_guess(n_classes: int) -> Tensor:
    """Half of the weight is on the given class, the other half spread evenly over all classes."""
    return torch.eye(n_classes) * 0.5 + 0.5 / n_classes


def estimate(
    probs: Tensor,
    evidence: Evidence,
    noise: Tensor,
    *,
    rounds: int,
    strength: float | None = None,
    tolerance: float = 1e-4,
) -> Tensor:
    """EM from `noise`, for out-of-fold probabilities (N, C)."""
    for _ in range(rounds):
        truth, _ = posterior(probs, evidence.likelihood(noise))
        updated = from_counts(evidence.counts(truth), strength)
        moved = float((updated - noise).abs().max())
        noise = updated
        if moved < tolerance:
            break
    return noise


# Noise by class that the given probabilities have learned themselves.

CONFIDENT_SHARES = (0.5, 0.25)
"""Shares of the rows predicted as a class, the surest of them, whose labels are counted."""
DECONVOLUTION_STEPS = 15


def of_surest_rows(probs: Tensor, evidence: Evidence) -> Tensor:
    """T as the labels of the surest predictions have it, for held-out probabilities (N, C).

    Mistakes that depend on the class alone are as frequent among sure rows as among others;
    mistakes at hard rows become rarer the surer the rows. Counted among the surest half and the
    surest quarter of the rows predicted as each class, and extrapolated linearly to a share of 0.
    """
    half, quarter = _of_confident_rows(probs, evidence)
    others = (2 * quarter - half).clamp_min(1e-4).fill_diagonal_(0.0)
    others *= (others.sum(1).clamp_max(0.9) / others.sum(1).clamp_min(1e-9))[:, None]
    return keep_diagonal_largest(others + torch.diag(1 - others.sum(1)))


def _of_confident_rows(probs: Tensor, evidence: Evidence) -> list[Tensor]:
    """T counted among each of the shares of the rows predicted as a class, the surest of them."""
    best, predicted = probs.max(1)
    counts = probs.new_zeros(len(CONFIDENT_SHARES), evidence.n_classes, evidence.n_classes)
    for k in range(evidence.n_classes):
        rows = ((predicted == k) & (evidence.given >= 0)).nonzero()[:, 0]
        given = evidence.given[rows[best[rows].argsort(descending=True)]]
        for by_share, share in zip(counts, CONFIDENT_SHARES, strict=True):
            surest = given[: math.ceil(share * len(given))]
            by_share[k] = torch.bincount(surest, minlength=evidence.n_classes)
    return [from_counts(by_share) for by_share in counts]


def deconvolve(probs: Tensor, noise: Tensor) -> Tensor:
    """s (N, C) on the simplex with s T near the probabilities of the given labels (N, C).

    Richardson-Lucy steps from s = probs: each lessens KL(probs || s T).
    """
    truth = probs
    for _ in range(DECONVOLUTION_STEPS):
        ratio = probs / (truth @ noise).clamp_min(1e-12)
        truth = truth * (ratio @ noise.T)
    truth = truth.clamp_min(1e-4)
    return by_class(truth / truth.sum(1, keepdim=True))


def from_counts(counts: Tensor, strength: float | None = None) -> Tensor:
    """The M-step: T from expected counts (C, C) of (true, given)."""
    n_classes = len(counts)
    n = counts.double()
    rows = n.sum(1, keepdim=True)
    # Laplace's rule of succession: a rate is never exactly zero.
    total, right = float(n.sum()), float(n.diag().sum())
    rate = (total - right + 1) / (total + 2)
    prior = torch.full_like(n, rate / (n_classes - 1)).fill_diagonal_(1 - rate)
    kappa = _strength_by_evidence(n, rows[:, 0], prior, rate) if strength is None else strength
    return keep_diagonal_largest((n + kappa * prior) / (rows + kappa)).float()


def keep_diagonal_largest(noise: Tensor) -> Tensor:
    """Where another entry of a row exceeds the diagonal, pool them: the order-restricted MLE."""
    exceeded = noise.amax(1) > noise.diag()
    if not bool(exceeded.any()):
        return noise
    others = noise.clone().fill_diagonal_(-1.0)
    noise = noise.clone()
    for k in exceeded.nonzero()[:, 0].tolist():
        values, columns = others[k].sort(descending=True)
        total, pooled = float(noise[k, k]), 1
        while pooled < len(noise) and float(values[pooled - 1]) > total / pooled:
            total += float(values[pooled - 1])
            pooled += 1
        noise[k, columns[: pooled - 1]] = total / pooled
        noise[k, k] = total / pooled
    return noise


def _strength_by_evidence(counts: Tensor, rows: Tensor, prior: Tensor, rate: float) -> float:
    """The shrinkage that maximises the Dirichlet-multinomial evidence of the counts (C, C).

    `rows` (C,) are their sums by row; `rate` of mistakes is what the prior (C, C) consists of.
    """
    n_classes = len(counts)
    of_cells = torch.lgamma(STRENGTHS[:, None, None] * prior + counts).sum((1, 2))
    of_rows = n_classes * _LGAMMA - torch.lgamma(STRENGTHS[:, None] + rows).sum(1)
    of_prior = torch.lgamma(STRENGTHS * (1 - rate))
    of_prior += (n_classes - 1) * torch.lgamma(STRENGTHS * (rate / (n_classes - 1)))
    return float(STRENGTHS[(of_rows + of_cells - n_classes * of_prior).argmax()])
