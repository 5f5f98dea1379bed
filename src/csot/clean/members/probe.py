"""Ridge softmax probes that know about label noise, cross-fitted, all folds in one product."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor

from csot.clean.features import Basis
from csot.clean.folds import Folds
from csot.clean.likelihood import Evidence, by_class, softmax_rows
from csot.clean.noise_matrix import estimate, first_guess
from csot.clean.stacking import SCORING_ROWS, stack

ROWS_AT_A_TIME = 8192
BIAS_RIDGE = 1e-6
MEMBERS_PER_KIND = 2
"""Probes of neighbouring ridges that become members."""
RELEARN_STEPS = 8


def logit_gradient(logits: Tensor, likelihood: Tensor) -> tuple[Tensor, Tensor]:
    """-log sum_k softmax(Z)_k p(y|k), (..., N), and its gradient in Z, both (..., C, N)."""
    probs = logits.softmax(-2)
    joint = probs * likelihood.T
    marginal = joint.sum(-2, keepdim=True).clamp_min_(torch.finfo(logits.dtype).tiny)
    return -marginal[..., 0, :].log(), probs.sub_(joint.div_(marginal))


def fit_probes(
    basis: Basis,
    folds: Folds,
    likelihood: Tensor,
    ridge: float,
    start: Tensor,
    *,
    steps: int = 15,
    tolerance: float = 1e-5,
    trusted: Tensor | None = None,
) -> Tensor:
    """Weights (D, K, C) of K probes, from `start`; L-BFGS, preconditioned by the variances.

    Rows have no effect if their likelihood is the same for every class, or if `trusted` (N, K) is
    false.
    """
    rows = basis.rows
    dim, n_folds, n_classes = start.shape
    penalty = torch.full((dim, 1, 1), ridge)
    penalty[-1] = BIAS_RIDGE
    # On principal axes the Hessian is nearly diagonal: this makes it nearly the identity.
    scale = (basis.variances[:, None, None] / n_classes + penalty).rsqrt()
    informative = (likelihood.amax(1) > likelihood.amin(1)).float()
    share = folds.training_mask() * informative[:, None]
    if trusted is not None:
        share *= trusted
    share = (share / share.sum(0).clamp_min(1.0)).T.contiguous()
    likelihood = by_class(likelihood)

    def loss_and_gradient(flat: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        weights = torch.from_numpy(flat).float().view(start.shape) * scale
        columns = weights.reshape(dim, -1).T
        loss, gradient = 0.0, torch.zeros(dim, n_folds * n_classes)
        for i in range(0, len(rows), ROWS_AT_A_TIME):
            part = slice(i, i + ROWS_AT_A_TIME)
            x, weight = rows[part], share[:, part]
            losses, slopes = logit_gradient(
                (columns @ x.T).view(n_folds, n_classes, len(x)), likelihood[part]
            )
            loss += float((losses * weight).sum())
            gradient.addmm_(x.T, slopes.mul_(weight[:, None]).view(-1, len(x)).T)
        loss += 0.5 * float((penalty * weights * weights).sum())
        total = (gradient.view(start.shape) + penalty * weights) * scale
        return loss, total.reshape(-1).double().numpy()

    found = minimize(
        loss_and_gradient,
        (start / scale).reshape(-1).double().numpy(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "ftol": tolerance},
    )
    return torch.from_numpy(found.x).float().view(start.shape) * scale


def no_weights(basis: Basis, folds: Folds, n_classes: int) -> Tensor:
    """Weights of zero: every class is equally likely."""
    return torch.zeros(basis.rows.shape[1], folds.n_folds, n_classes)


def held_out_logits(basis: Basis, folds: Folds, weights: Tensor) -> Tensor:
    """Each row's logits (N, C) by the probe that did not train on it."""
    logits = torch.empty(len(basis.rows), weights.shape[2])
    for k in range(folds.n_folds):
        rows = folds.held_out(k)
        logits[rows] = basis.rows[rows] @ weights[:, k]
    return logits


# Finding a first noise matrix, and probes of several ridges around it.

FIRST_RIDGE = 3e-3
RIDGE_STEP = 4.0
FURTHEST = 4
"""Most steps from the first ridge in either direction."""


@dataclass(frozen=True)
class Probe:
    """Probes of one ridge: predictions for held-out rows, and how likely they make the labels."""

    ridge: float
    weights: Tensor
    logits: Tensor
    noise: Tensor
    loss: float


@dataclass(frozen=True)
class ProbePredictor:
    """The mean of the folds' probes, on principal axes."""

    basis: Basis
    weights: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        return self.basis(rows) @ self.weights.to(rows.dtype)


def settle(
    basis: Basis,
    folds: Folds,
    evidence: Evidence,
    noise: Tensor,
    *,
    rounds: int,
    weights: Tensor | None = None,
    strength: float | None = None,
    tolerance: float = 3e-3,
) -> tuple[Tensor, Tensor]:
    """Alternate probes given T and T given held-out probabilities, until T converges.

    The temperature is not free here: freed before T has settled, it merges confusable classes.
    """
    if weights is None:
        weights = no_weights(basis, folds, evidence.n_classes)
    for _ in range(rounds):
        likelihood = evidence.likelihood(noise)
        weights = fit_probes(basis, folds, likelihood, FIRST_RIDGE, weights, steps=8)
        probs = softmax_rows(held_out_logits(basis, folds, weights))
        updated = estimate(probs, evidence, noise, rounds=10, strength=strength)
        moved = float((updated - noise).abs().max())
        noise = updated
        if moved < tolerance:
            break
    return weights, noise


def first_noise(
    basis: Basis, folds: Folds, evidence: Evidence, noise: Tensor | None = None
) -> Probe:
    """Probes of the first ridge and T, from nothing or from a guess.

    Fitted with almost no shrinkage of T and, from there, with the shrinkage of the evidence; the
    likelier of the two is returned. Shrinkage from the start may hide a single noisy cell; no
    shrinkage overfits small data.
    """
    guess = first_guess(evidence.n_classes) if noise is None else noise
    weights = None
    found = []
    for strength in (1.0, None):
        weights, guess = settle(
            basis, folds, evidence, guess, rounds=20, weights=weights, strength=strength
        )
        found.append(_probe(basis, folds, evidence, guess, FIRST_RIDGE, weights))
    return min(found, key=lambda probe: probe.loss)


def probe_path(
    basis: Basis, folds: Folds, evidence: Evidence, noise: Tensor, weights: Tensor
) -> list[Probe]:
    """Probes at the first ridge and on either side of it while that helps; the likeliest first."""
    first = _probe(basis, folds, evidence, noise, FIRST_RIDGE, weights)
    probes = [first]
    likelihood = evidence.likelihood(first.noise)
    for factor in (RIDGE_STEP, 1 / RIDGE_STEP):
        best = first
        for _ in range(FURTHEST):
            ridge = probes[-1].ridge * factor if best is not first else FIRST_RIDGE * factor
            weights = fit_probes(basis, folds, likelihood, ridge, best.weights, steps=12)
            probe = _probe(basis, folds, evidence, first.noise, ridge, weights)
            probes.append(probe)
            if probe.loss > best.loss:
                break
            best = probe
        if best is not first:
            break
    return sorted(probes, key=lambda probe: probe.loss)


def relearn(
    basis: Basis,
    folds: Folds,
    evidence: Evidence,
    probes: list[Probe],
    trusted: Tensor,
    *,
    steps: int,
) -> list[Probe]:
    """The same probes, trained further on the rows (N, K) whose labels are believable."""
    relearned = []
    for probe in probes:
        weights = fit_probes(
            basis,
            folds,
            evidence.likelihood(probe.noise),
            probe.ridge,
            probe.weights,
            steps=steps,
            trusted=trusted,
        )
        logits = held_out_logits(basis, folds, weights)
        relearned.append(replace(probe, weights=weights, logits=logits))
    return relearned


def _probe(
    basis: Basis, folds: Folds, evidence: Evidence, noise: Tensor, ridge: float, weights: Tensor
) -> Probe:
    logits = held_out_logits(basis, folds, weights)
    judged = stack([logits], evidence, noise, torch.ones(1), rounds=10, max_rows=SCORING_ROWS)
    return Probe(ridge, weights, logits, judged.noise, judged.loss)
