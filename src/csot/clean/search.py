"""Finding a first noise matrix, and probes of several ridges around it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from csot.clean.basis import Basis
from csot.clean.evidence import Evidence
from csot.clean.folds import Folds
from csot.clean.noise_matrix import estimate, first_guess
from csot.clean.probe import fit_probes, held_out_logits, no_weights
from csot.clean.stacking import SCORING_ROWS, stack

FIRST_RIDGE = 3e-3
RIDGE_STEP = 4.0
FURTHEST = 4
"""Most steps from the first ridge in either direction."""


@dataclass(frozen=True)
class ProbeMember:
    """Probes of one ridge: what they say of held-out rows, and how likely that makes the labels."""

    ridge: float
    weights: Tensor
    logits: Tensor
    noise: Tensor
    loss: float


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
    """Alternate probes given T and T given held-out probabilities, until T stands still.

    The temperature is not free here: freed before T has settled, it merges confusable classes.
    """
    if weights is None:
        weights = no_weights(basis, folds, evidence.n_classes)
    for _ in range(rounds):
        likelihood = evidence.likelihood(noise)
        weights = fit_probes(basis, folds, likelihood, FIRST_RIDGE, weights, steps=8)
        probs = held_out_logits(basis, folds, weights).softmax(1)
        updated = estimate(probs, evidence, noise, rounds=10, strength=strength)
        moved = float((updated - noise).abs().max())
        noise = updated
        if moved < tolerance:
            break
    return weights, noise


def first_noise(
    basis: Basis, folds: Folds, evidence: Evidence, noise: Tensor | None = None
) -> ProbeMember:
    """Probes of the first ridge and T, from nothing or from a guess.

    With almost no shrinkage of T and, from there, with that of the evidence; the likelier.

    A lone noisy cell may be shrunk away before it has been seen; without shrinkage, small data
    would be overfitted.
    """
    guess = first_guess(evidence.n_classes) if noise is None else noise
    weights = None
    found = []
    for strength in (1.0, None):
        weights, guess = settle(
            basis, folds, evidence, guess, rounds=20, weights=weights, strength=strength
        )
        found.append(_member(basis, folds, evidence, guess, FIRST_RIDGE, weights))
    return min(found, key=lambda member: member.loss)


def probe_path(
    basis: Basis, folds: Folds, evidence: Evidence, noise: Tensor, weights: Tensor
) -> list[ProbeMember]:
    """Probes at the first ridge and on either side of it while that helps; the likeliest first."""
    first = _member(basis, folds, evidence, noise, FIRST_RIDGE, weights)
    members = [first]
    likelihood = evidence.likelihood(first.noise)
    for factor in (RIDGE_STEP, 1 / RIDGE_STEP):
        best = first
        for _ in range(FURTHEST):
            ridge = members[-1].ridge * factor if best is not first else FIRST_RIDGE * factor
            weights = fit_probes(basis, folds, likelihood, ridge, best.weights, steps=12)
            member = _member(basis, folds, evidence, first.noise, ridge, weights)
            members.append(member)
            if member.loss > best.loss:
                break
            best = member
        if best is not first:
            break
    return sorted(members, key=lambda member: member.loss)


def relearn(
    basis: Basis,
    folds: Folds,
    evidence: Evidence,
    members: list[ProbeMember],
    trusted: Tensor,
    *,
    steps: int,
) -> list[ProbeMember]:
    """The same probes, trained further on the rows (N, K) whose labels are believable."""
    relearned = []
    for member in members:
        weights = fit_probes(
            basis,
            folds,
            evidence.likelihood(member.noise),
            member.ridge,
            member.weights,
            steps=steps,
            trusted=trusted,
        )
        logits = held_out_logits(basis, folds, weights)
        relearned.append(replace(member, weights=weights, logits=logits))
    return relearned


def _member(
    basis: Basis, folds: Folds, evidence: Evidence, noise: Tensor, ridge: float, weights: Tensor
) -> ProbeMember:
    logits = held_out_logits(basis, folds, weights)
    judged = stack([logits], evidence, noise, torch.ones(1), rounds=10, max_rows=SCORING_ROWS)
    return ProbeMember(ridge, weights, logits, judged.noise, judged.loss)
