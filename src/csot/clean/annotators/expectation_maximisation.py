"""The truth of each sample from several annotators' votes and a classifier, by EM.

    p(votes_i | x_i) = sum_k pi_k(x_i) prod_{votes v of i} T_{a(v)}[k, y(v)]
    pi_k(x)          = p_k(x)^g w_k / sum_l p_l(x)^g w_l

    N, A, C     numbers of samples, annotators and classes
    p           (N, C) held-out class probabilities; 1 where there is no classifier
    g, w        sharpness and class weights of pi, from the same likelihood
    T_a         confusion matrix of annotator a: see `confusions`

E: q_ik, the posterior of the truth, in the log domain; a verified sample has q_ik = [k = v_i].
M: T_a from the expected counts; g and w by one step of Newton and of iterative scaling, which fit
pi to q. Everything is float64, over the long table of votes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from csot._core.array_types import Floats, Ints
from csot.clean.annotators.confusions import Confusions, Habits, Pairs, estimate

MAX_ROUNDS = 500
TOLERANCE = 1e-3
"""Largest change of a posterior at which EM has converged."""
STRENGTH_ROUNDS = (2, 5, 9)
"""Rounds that choose kappa and s again; after the last they stay, or the grid they are chosen from
could keep EM from settling."""
SHARPNESS = (0.05, 20.0)
PRIOR_WEIGHT = 10.0
"""Precision of the priors log g, log w_k ~ N(0, 1 / PRIOR_WEIGHT): that of about ten samples."""


@dataclass(frozen=True, eq=False)
class Prior:
    """pi: sharpness g and log w of the classifier's probabilities."""

    log_probs: Floats
    """(N, C); 0 without a classifier."""
    sharpness: float
    log_weights: Floats

    def log_pi(self) -> Floats:
        """(N, C)."""
        logits = self.sharpness * self.log_probs + self.log_weights
        normal: Floats = logits - logsumexp(logits, axis=1, keepdims=True)
        return normal


@dataclass(frozen=True, eq=False)
class AnnotatorFit:
    """What EM found."""

    posterior: Floats
    """q (N, C)."""
    prior: Prior
    confusions: Confusions
    log_likelihood: float
    """Mean over the samples, of their votes."""
    rounds: int
    converged: bool


def fit(pairs: Pairs, votes: Floats, log_probs: Floats | None, verified: Ints) -> AnnotatorFit:
    """EM from the shares of the votes (N, C); `verified` (N,) is -1 where unknown."""
    n_samples, n_classes = votes.shape
    prior = Prior(
        np.zeros((n_samples, n_classes)) if log_probs is None else log_probs,
        1.0,
        np.zeros(n_classes),
    )
    locked = verified >= 0
    truth = _lock(_first_guess(votes, prior), verified)
    habits = Habits.none(pairs.n_annotators, n_classes)
    confusions = estimate(pairs.of_sample.T @ truth, pairs, habits)
    level = 0.0
    for done in range(1, MAX_ROUNDS + 1):
        log_pi = prior.log_pi()
        joint = log_pi + pairs.of_sample @ confusions.log_matrices()
        marginal = logsumexp(joint, axis=1, keepdims=True)
        updated = _lock(np.exp(joint - marginal), verified)
        level = float(
            np.where(locked, joint[np.arange(n_samples), verified], marginal[:, 0]).mean()
        )
        moved = float(np.abs(updated - truth).max(initial=0.0))
        truth = updated
        if moved < TOLERANCE and done > 1:
            return AnnotatorFit(truth, prior, confusions, level, done, True)
        strengths = None if done in STRENGTH_ROUNDS else confusions.strengths
        confusions = estimate(pairs.of_sample.T @ truth, pairs, confusions.habits, strengths)
        prior = _step(prior, truth, log_pi, log_probs is not None)
    return AnnotatorFit(truth, prior, confusions, level, MAX_ROUNDS, False)


def _first_guess(votes: Floats, prior: Prior) -> Floats:
    """Shares of the votes, the classifier counting as one more vote."""
    shares = votes + np.exp(prior.log_pi())
    guess: Floats = shares / shares.sum(1, keepdims=True)
    return guess


def _lock(truth: Floats, verified: Ints) -> Floats:
    rows = np.flatnonzero(verified >= 0)
    truth[rows] = 0.0
    truth[rows, verified[rows]] = 1.0
    return truth


def _step(prior: Prior, truth: Floats, log_pi: Floats, has_classifier: bool) -> Prior:
    """Move g and w towards the maximum of sum_ik q_ik log pi_k(x_i)."""
    pi = np.exp(log_pi)
    if not has_classifier:
        return Prior(prior.log_probs, 1.0, np.log(truth.mean(0) + 1 / len(truth)))
    expected = (pi * prior.log_probs).sum(1)
    gradient = float(((truth * prior.log_probs).sum(1) - expected).sum())
    curvature = float((pi * prior.log_probs**2).sum() - (expected**2).sum())
    # In log g, where the prior is normal.
    g = prior.sharpness
    slope = g * gradient - PRIOR_WEIGHT * np.log(g)
    bend = g**2 * curvature + PRIOR_WEIGHT
    log_g = np.log(g) + np.clip(slope / bend, -0.5, 0.5)
    sharpness = float(np.clip(np.exp(log_g), *SHARPNESS))
    found, expected_rows = truth.sum(0), pi.sum(0)
    slopes = found - expected_rows - PRIOR_WEIGHT * prior.log_weights
    weights = prior.log_weights + np.clip(slopes / (expected_rows + PRIOR_WEIGHT), -0.5, 0.5)
    return Prior(prior.log_probs, sharpness, weights - weights.mean())
