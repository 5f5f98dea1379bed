"""Several annotators, one hidden truth: the model in NumPy float64, straight from its equations.

    p(votes_i | x_i) = sum_k pi_k(x_i) prod_{votes v of i} T_{a(v)}[k, y(v)]
    pi_k(x)          = p_k(x)^g w_k / sum_l p_l(x)^g w_l

    votes       list of (sample, annotator, label)
    n           (A, C, C)  expected number of votes for j by a on samples of true class k
    T           (C, C)     the common matrix;  M (A, C, C) with each annotator's habits
    theta, beta (A,), (A, C)  log error odds and log preferences of labels

Dense arrays and loops; optima come from general solvers: nothing here is clever.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import gammaln

FloatArray = NDArray[np.float64]
Vote = tuple[int, int, int]

STRENGTHS = [10.0 ** (power / 2) for power in range(13)]


def prior(probs: FloatArray, sharpness: float, weights: FloatArray) -> FloatArray:
    """pi (N, C)."""
    raised = probs**sharpness * weights
    return raised / raised.sum(1, keepdims=True)


def posterior(
    pi: FloatArray, votes: list[Vote], matrices: FloatArray, verified: list[int]
) -> FloatArray:
    """q (N, C), by Bayes' rule; a verified sample is what it was verified to be."""
    joint = pi.copy()
    for sample, annotator, label in votes:
        joint[sample] *= matrices[annotator, :, label]
    for sample, truth in enumerate(verified):
        if truth >= 0:
            joint[sample] = np.eye(joint.shape[1])[truth]
    return joint / joint.sum(1, keepdims=True)


def expected_counts(truth: FloatArray, votes: list[Vote], n_annotators: int) -> FloatArray:
    """n (A, C, C)."""
    n_classes = truth.shape[1]
    counts = np.zeros((n_annotators, n_classes, n_classes))
    for sample, annotator, label in votes:
        for k in range(n_classes):
            counts[annotator, k, label] += truth[sample, k]
    return counts


def evidence(counts: FloatArray, weights: FloatArray) -> float:
    """log p(counts) of one multinomial with Dirichlet(weights) probabilities, up to a constant."""
    total = gammaln(weights.sum()) - gammaln(weights.sum() + counts.sum())
    return float(total + (gammaln(weights + counts) - gammaln(weights)).sum())


def common_matrix(counts: FloatArray) -> FloatArray:
    """T (C, C) from counts (C, C)."""
    n_classes = len(counts)
    wrong = (counts.sum() - np.trace(counts) + 1) / (counts.sum() + 2)
    one_rate = np.full((n_classes, n_classes), wrong / (n_classes - 1))
    np.fill_diagonal(one_rate, 1 - wrong)
    found = [sum(evidence(counts[k], s * one_rate[k]) for k in range(n_classes)) for s in STRENGTHS]
    kappa = STRENGTHS[int(np.argmax(found))]
    rows = []
    for k in range(n_classes):
        row = (counts[k] + kappa * one_rate[k]) / (counts[k].sum() + kappa)
        row = np.minimum(row, row[k])
        rows.append(row / row.sum())
    return np.array(rows)


def habit_matrix(common: FloatArray, theta: float, beta: FloatArray) -> FloatArray:
    """M_a (C, C)."""
    raised = common * np.exp(beta)
    raised *= np.where(np.eye(len(common)) == 1, 1.0, np.exp(theta))
    return raised / raised.sum(1, keepdims=True)


def habits(
    counts: FloatArray, common: FloatArray, mean: float, variances: tuple[float, float]
) -> tuple[float, FloatArray]:
    """MAP theta and beta of one annotator with counts (C, C)."""

    def loss(values: FloatArray) -> float:
        theta, beta = float(values[0]), values[1:]
        fit = (counts * np.log(habit_matrix(common, theta, beta))).sum()
        penalty = (theta - mean) ** 2 / variances[0] + (beta**2).sum() / variances[1]
        return float(penalty / 2 - fit)

    found = minimize(loss, np.zeros(len(common) + 1), method="BFGS", options={"gtol": 1e-8})
    return float(found.x[0]), found.x[1:]


def own_strength(counts: FloatArray, means: FloatArray) -> float:
    """s, from counts and M (A, C, C)."""
    rows = list(
        zip(
            counts.reshape(-1, counts.shape[-1]),
            means.reshape(counts.shape[0] * counts.shape[1], -1),
            strict=True,
        )
    )
    found = [sum(evidence(n, s * m) for n, m in rows) for s in STRENGTHS]
    return STRENGTHS[int(np.argmax(found))]


def calibrate(truth: FloatArray, probs: FloatArray, weight: float) -> tuple[float, FloatArray]:
    """g and w that maximise sum_ik q_ik log pi_k(x_i), with normal priors on their logarithms."""
    n_classes = probs.shape[1]

    def loss(values: FloatArray) -> float:
        pi = prior(probs, float(np.exp(values[0])), np.exp(values[1:]))
        return float(weight * (values**2).sum() / 2 - (truth * np.log(pi)).sum())

    found = minimize(loss, np.zeros(n_classes + 1), method="BFGS", options={"gtol": 1e-8})
    return float(np.exp(found.x[0])), np.exp(found.x[1:])
