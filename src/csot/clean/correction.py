"""Which labels to change: the truth is sharper than what annotators perceive, and T is refitted.

    p*(x) = p(x)^power / sum                  the truth
    T*    = argmax_T  sum_i log sum_k p*_k(x_i) T[k, y_i]            by EM
    q_k   proportional to  p*_k T*[k, y] w_k                         posterior of the truth

The sharper p*, the more of the disagreement is noise, and T* says by class what a label is still
worth then: even where the position of a data set (`explanation`) is misjudged, a label is not
taken for a blind guess. w are the factors of `class_shares`. The power follows the doubt, and
verified rows move it to where most of them are put right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from csot.clean.class_shares import class_factors, reweighted
from csot.clean.likelihood import Evidence, by_class, posterior, softmax_rows
from csot.clean.noise_matrix import estimate, first_guess

LEAST_POWER, LARGEST_POWER = 1.25, 4.4
"""Power at `LEAST_DOUBT` or below, and at `FULL_DOUBT` or above."""
LEAST_DOUBT = 0.35
"""Where the clusters say nothing: people tell classes apart a little better than models do."""
FULL_DOUBT = 1.0
"""Doubt from which the power no longer grows."""
SLOW_START = 1.5
"""Exponent of the growth between them: a little doubt changes few labels."""
POWERS = tuple(float(power) for power in np.geomspace(1.0, 12.0, 12))
"""Candidates for the power where rows are verified."""
POWER_DEVIATION = 0.4
"""Standard deviation of the prior on the logarithm of the power."""
ROW_WEIGHT = 0.5
"""Log-likelihood that a power gains for each verified row that it puts right."""
ROUNDS = 20
"""EM steps of T*."""


@dataclass(frozen=True)
class Correction:
    """The posterior by which labels are changed: power, noise matrix (C, C), factors (C,)."""

    power: float
    noise: Tensor
    factors: Tensor

    def posterior(self, probs: Tensor, evidence: Evidence) -> Tensor:
        """q (N, C) in float64; verified rows are certain."""
        likelihood = evidence.likelihood(self.noise.double())
        # A label that p holds impossible is still the right one where T knows no mistakes.
        wide = by_class(probs.double()).clamp_min(1e-30)
        truth, _ = posterior(sharpen(wide, self.power), likelihood)
        weighted = reweighted(truth, self.factors)
        locked = evidence.verified >= 0
        if bool(locked.any()):
            weighted[locked] = likelihood[locked]
        return weighted


def sharpen(probs: Tensor, power: float) -> Tensor:
    """probs^power, normalised by row."""
    if power == 1.0:
        return probs
    return softmax_rows(power * probs.clamp_min(1e-30).log())


def power_at(doubt: float) -> float:
    """The power for a position on the path of explanations."""
    share = min(max((doubt - LEAST_DOUBT) / (FULL_DOUBT - LEAST_DOUBT), 0.0), 1.0)
    return LEAST_POWER + math.pow(share, SLOW_START) * (LARGEST_POWER - LEAST_POWER)


def fit_correction(
    probs: Tensor,
    evidence: Evidence,
    doubt: float,
    class_prior: Tensor | None = None,
    some: Tensor | slice = slice(None),
) -> Correction:
    """Fit power, T* and factors to rows (N, C).

    `some` is a fair sample of the rows, which determines T* and the factors; the power is
    determined by all verified rows.
    """
    power = power_at(doubt)
    sample, part = probs[some], evidence.take(some)
    checked = ((evidence.verified >= 0) & (evidence.given >= 0)).nonzero()[:, 0]
    if len(checked):
        verified = probs[checked], evidence.take(checked)
        power = _power_by_verified(sample, part, *verified, power)
    noise = _refitted(sample, part, power)
    plain = Correction(power, noise, torch.ones(evidence.n_classes, dtype=torch.float64))
    truth = plain.posterior(sample, part)
    return Correction(power, noise, class_factors(truth, part.given, class_prior))


def _refitted(probs: Tensor, evidence: Evidence, power: float) -> Tensor:
    """T* for a power."""
    sharp = sharpen(by_class(probs.float()), power)
    return estimate(sharp, evidence, first_guess(evidence.n_classes), rounds=ROUNDS)


def _power_by_verified(
    probs: Tensor, evidence: Evidence, verified_probs: Tensor, verified: Evidence, start: float
) -> float:
    """The power that puts most of the verified rows right, near the first one.

    Counted, not by their likelihood, which is about how sure a posterior is and not about which
    label it changes. The first power times exp of how far the rows move the mean of log power, so
    that rows which no power judges differently leave it where it is.
    """
    # As if nothing were verified: what the rows are counted by must not know their truth.
    unlocked, ones = _unlocked(evidence), torch.ones(evidence.n_classes, dtype=torch.float64)
    counts = []
    for power in POWERS:
        correction = Correction(power, _refitted(probs, unlocked, power), ones)
        corrected = correction.posterior(verified_probs, _unlocked(verified)).argmax(1)
        counts.append(float((corrected == verified.verified).sum()))
    logs = np.log(POWERS)
    prior = -0.5 * ((logs - np.log(start)) / POWER_DEVIATION) ** 2
    before, after = (
        float(np.average(logs, weights=np.exp(score - score.max())))
        for score in (prior, prior + ROW_WEIGHT * np.asarray(counts))
    )
    return float(np.clip(start * np.exp(after - before), POWERS[0], POWERS[-1]))


def _unlocked(evidence: Evidence) -> Evidence:
    return Evidence.of_labels(evidence.given, evidence.n_classes)
