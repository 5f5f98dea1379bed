"""Stacking: members are weighed, and the noise matrix fitted, by one held-out likelihood.

    max over a >= 0, T of  sum_i log sum_k softmax(sum_m a_m Z_m(x_i))_k p(y_i | k)

with Z_m held-out logits. No clean label is needed. The weights also set the temperature, without
which a ridge's caution would pass for label noise. a: projected Newton steps; T: EM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from csot.clean.likelihood import Evidence, by_class, marginal_likelihood, posterior
from csot.clean.noise_matrix import estimate

PRIOR_STRENGTH = 0.1
"""Weight, in rows, of a Gaussian prior on a: separable data would send it to infinity."""
LEAST_CURVATURE = 0.05
"""Share of the curvature of EM's bound that is kept where the likelihood's own is smaller."""
LENGTHS = (1.0, 0.5, 0.25), (1.0, 0.5, 0.25, 0.1, 0.01)
"""Of the Newton step, and of the step by the bound where no length of the first descends."""
FIRST_STEPS = 4
"""Newton steps before T is first fitted: weights that do not suit T yet would draw it to a worse
optimum."""
SMALLEST_NOISE = 0.002
"""Noise that is assumed where none is fitted: one impossible label must not decide alone."""
MAX_ROWS = 25_000
SCORING_ROWS = 10_000
"""Rows that determine temperature and T where members are only compared with each other."""


@dataclass(frozen=True)
class Stack:
    """Weights (M,), noise matrix (C, C), held-out probabilities (N, C), -log likelihood per row."""

    weights: Tensor
    noise: Tensor
    probs: Tensor
    loss: float


def stack(
    members: list[Tensor],
    evidence: Evidence,
    noise: Tensor,
    start: Tensor | None = None,
    *,
    rounds: int = 40,
    tolerance: float = 1e-3,
    max_rows: int = MAX_ROWS,
) -> Stack:
    """Weigh held-out logits of several members (N, C) each.

    A few weights and T are determined by a sample of at most `max_rows` rows and the verified
    ones; probabilities and loss are those of all rows.
    """
    if len(evidence) > max_rows:
        some = evidence.sample(max_rows)
        part = stack(
            [member[some] for member in members],
            evidence.take(some),
            noise,
            start,
            rounds=rounds,
            tolerance=tolerance,
            max_rows=len(some),
        )
        probs = _probs(_stored_by_class(members), part.weights)
        return replace(part, probs=probs, loss=held_out_loss(probs, evidence, part.noise))
    logits = _stored_by_class(members)
    weights = torch.full((len(members),), 1.0 / len(members)) if start is None else start
    probs = _probs(logits, weights)
    for turn in range(rounds):
        before = weights
        likelihood = evidence.likelihood(noise)
        for _ in range(1 if turn else FIRST_STEPS):
            weights, probs = _newton_step(logits, likelihood, weights, probs)
        updated = estimate(probs, evidence, noise, rounds=5)
        moved = float((updated - noise).abs().max())
        noise = updated
        if moved < tolerance and bool(
            (weights - before).abs().max() < tolerance * weights.sum().clamp_min(1e-6)
        ):
            break
    return Stack(weights, noise, probs, held_out_loss(probs, evidence, noise))


def calibrate(logits: Tensor, evidence: Evidence, *, steps: int = 12) -> Stack:
    """The temperature of one member (N, C) that makes the given labels likeliest, without noise."""
    noise = (
        torch.eye(evidence.n_classes) * (1 - SMALLEST_NOISE) + SMALLEST_NOISE / evidence.n_classes
    )
    stored, weights = _stored_by_class([logits]), torch.ones(1)
    likelihood, probs = evidence.likelihood(noise), _probs(stored, weights)
    for _ in range(steps):
        before = weights
        weights, probs = _newton_step(stored, likelihood, weights, probs)
        if float((weights - before).abs()) <= 1e-3 * float(before):
            break
    return Stack(weights, noise, probs, held_out_loss(probs, evidence, noise))


def held_out_loss(probs: Tensor, evidence: Evidence, noise: Tensor) -> float:
    """Mean of -log p(y_i | x_i) over the rows that have a label."""
    labelled = (evidence.given >= 0) | (evidence.verified >= 0)
    marginal = marginal_likelihood(probs[labelled], evidence.take(labelled).likelihood(noise))
    return float(-marginal.log().mean())


def information(probs: Tensor, evidence: Evidence, noise: Tensor) -> float:
    """How surely held-out labels are predicted better than by their frequencies.

    The score test of labels that do not depend on the features: with m_ik = sum_j p_j(x_i) T[j, k]
    and label frequencies f,

        z = sum_i (m_iy - sum_k f_k m_ik) / sqrt(sum_i sum_k f_k m_ik^2 - (sum_k f_k m_ik)^2)

    A few standard errors are chance, as temperature and weights were chosen by the same labels.
    Then nothing tells labels that the features do not predict from wrong ones.
    """
    labelled = (evidence.given >= 0) & (evidence.verified < 0)
    if int(labelled.sum()) < 2:
        return float("inf")
    given = evidence.given[labelled]
    predicted = probs[labelled].double() @ noise.double()
    shares = torch.bincount(given, minlength=evidence.n_classes).double() / len(given)
    mean = predicted @ shares
    variance = predicted.square() @ shares - mean.square()
    gain = predicted.gather(1, given[:, None])[:, 0] - mean
    # Predictions that are the same for every class gain nothing, but for rounding.
    return float(gain.sum() / variance.clamp_min(1e-20).sum().sqrt())


def _stored_by_class(members: list[Tensor]) -> Tensor:
    """Logits of all members, (M, N, C) in shape and (M, C, N) in memory."""
    return torch.stack([by_class(member).T for member in members]).transpose(1, 2)


def _probs(logits: Tensor, weights: Tensor) -> Tensor:
    stored = logits.transpose(1, 2)
    combined = weights[None] @ stored.reshape(len(stored), -1)
    return combined.view(stored.shape[1:]).softmax(0).T


def _newton_step(
    logits: Tensor, likelihood: Tensor, weights: Tensor, probs: Tensor
) -> tuple[Tensor, Tensor]:
    """One Newton step on the weights, never uphill, projected onto a >= 0.

    Takes and returns the weights and their probabilities, which cost most of the time.
    """
    n = logits.shape[1]
    prior = PRIOR_STRENGTH / n

    def loss(a: Tensor, marginal: Tensor) -> float:
        return float(-marginal.log().mean() + prior / 2 * a @ a)

    truth, marginal = posterior(probs, likelihood)
    slope = ((probs - truth) * logits).sum((1, 2)) / n + prior * weights
    free = ((weights > 0) | (slope < 0)).nonzero()[:, 0]
    here = loss(weights, marginal)
    for curvature, lengths in zip(_curvatures(logits, probs, truth), LENGTHS, strict=True):
        direction = torch.zeros_like(weights)
        own = (curvature + prior * torch.eye(len(weights)))[free][:, free]
        direction[free] = torch.linalg.solve(own, slope[free])
        for length in lengths:
            trial = (weights - length * direction).clamp_min(0)
            tried = _probs(logits, trial)
            if loss(trial, marginal_likelihood(tried, likelihood)) <= here + 1e-7:
                return trial, tried
    return weights, probs


def _curvatures(logits: Tensor, probs: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Second derivatives (M, M) of the loss, and of EM's bound on it.

    The first are covariances of the logits under p less those under q; those under p alone are the
    curvature of the bound, whose steps never fail and become tiny the less a label tells. The
    difference need not be positive definite: no more is taken off than leaves a small share.
    """
    of_bound, of_posterior = (_covariance(logits, weights) for weights in (probs, truth))
    of_bound += 1e-4 * of_bound.diag().mean().clamp_min(1e-12) * torch.eye(len(of_bound))
    factor = torch.linalg.cholesky(of_bound)
    half = torch.linalg.solve_triangular(factor, of_posterior, upper=False)
    relative = torch.linalg.solve_triangular(factor, half.T, upper=False)
    largest = float(torch.linalg.eigvalsh(relative)[-1])
    share = min(1.0, (1 - LEAST_CURVATURE) / max(largest, 1e-6))
    return of_bound - share * of_posterior, of_bound


def _covariance(logits: Tensor, probs: Tensor) -> Tensor:
    """Mean over the rows of the covariances (M, M) of the members' logits over the classes."""
    centred = logits - (probs * logits).sum(2, keepdim=True)
    sums = torch.stack([(probs * member * centred).sum((1, 2)) for member in centred])
    return sums / logits.shape[1]
