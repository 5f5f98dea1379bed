"""The latent-truth model of noisy labels in NumPy float64, straight from its equations.

    p(y_i | x_i) = sum_k p_k(x_i) L[i, k]

    N, C        numbers of rows and of classes
    P           (N, C)   probabilities of the true class, Z their logits
    T           (C, C)   noise matrix, T[k, j] = p(given j | true k)
    L           (N, C)   likelihood of what is known of row i if k is its true class: T[k, y_i];
                         1 if nothing is known; [k = v_i] if the truth v_i is
    n           (C, C)   expected number of rows of true class k that were given label j
    kappa, M    strength and mean (C, C) of the Dirichlet prior of the rows of T

Derivatives are finite differences and optima come from general solvers: nothing here is clever.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

STRENGTHS = [10.0 ** (power / 2) for power in range(13)]
BIAS_RIDGE = 1e-6


def softmax(logits: FloatArray) -> FloatArray:
    return np.exp(logits - logsumexp(logits, axis=-1, keepdims=True))


def likelihood(given: IntArray, verified: IntArray, noise: FloatArray) -> FloatArray:
    """L, row by row."""
    n_classes = len(noise)
    rows = []
    for label, truth in zip(given, verified, strict=True):
        if truth >= 0:
            rows.append([1.0 if k == truth else 0.0 for k in range(n_classes)])
        elif label < 0:
            rows.append([1.0] * n_classes)
        else:
            rows.append([noise[k, label] for k in range(n_classes)])
    return np.array(rows)


def log_likelihood(probs: FloatArray, known: FloatArray) -> FloatArray:
    """log sum_k P_ik L_ik, (N,)."""
    return np.log((probs * known).sum(-1))


def posterior(probs: FloatArray, known: FloatArray) -> FloatArray:
    """Bayes: q_ik = P_ik L_ik / sum_l P_il L_il."""
    joint = probs * known
    return joint / joint.sum(-1, keepdims=True)


def counts(truth: FloatArray, given: IntArray) -> FloatArray:
    """n[k, j] = sum of q_ik over the rows given label j."""
    n_classes = truth.shape[1]
    return np.array(
        [[truth[given == j, k].sum() for j in range(n_classes)] for k in range(n_classes)]
    )


def finite_differences(
    function: Callable[[FloatArray], float], at: FloatArray, step: float = 1e-6
) -> FloatArray:
    """Central differences of a scalar function."""
    slope = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        there, back = at.copy(), at.copy()
        there[place] += step
        back[place] -= step
        slope[place] = (function(there) - function(back)) / (2 * step)
    return slope


def prior_mean(n: FloatArray) -> FloatArray:
    """M: one error rate for all classes, by the rule of succession, even over the others."""
    wrong = n.sum() - np.trace(n)
    rate = (wrong + 1) / (n.sum() + 2)
    c = len(n)
    return np.array([[1 - rate if k == j else rate / (c - 1) for j in range(c)] for k in range(c)])


def strength_by_evidence(n: FloatArray) -> float:
    """kappa that makes the counts likeliest under the Dirichlet-multinomial distribution."""
    mean = prior_mean(n)

    def evidence(kappa: float) -> float:
        total = 0.0
        for row, centre in zip(n, mean, strict=True):
            total += gammaln(kappa) - gammaln(kappa + row.sum())
            total += (gammaln(kappa * centre + row) - gammaln(kappa * centre)).sum()
        return float(total)

    return max(STRENGTHS, key=evidence)


def restricted_row(weights: FloatArray, diagonal: int) -> FloatArray:
    """argmax sum_j w_j log t_j over the simplex with t_diagonal >= t_j for all j."""
    c = len(weights)
    start = np.full(c, 1.0 / c)

    def descent(t: FloatArray) -> FloatArray:
        return -weights / t

    found = minimize(
        lambda t: -(weights * np.log(t)).sum(),
        start,
        jac=descent,
        method="SLSQP",
        bounds=[(1e-9, 1.0)] * c,
        constraints=[
            {"type": "eq", "fun": lambda t: t.sum() - 1},
            {"type": "ineq", "fun": lambda t: t[diagonal] - np.delete(t, diagonal)},
        ],
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert found.success, found.message
    return np.asarray(found.x)


def penalised_log_likelihood(
    probs: FloatArray, given: IntArray, noise: FloatArray, kappa: float, mean: FloatArray
) -> float:
    """sum_i log p(y_i | x_i) + kappa sum_kj M[k, j] log T[k, j]."""
    known = likelihood(given, np.full(len(given), -1), noise)
    return float(log_likelihood(probs, known).sum() + kappa * (mean * np.log(noise)).sum())


def noise_by_em(
    probs: FloatArray, given: IntArray, noise: FloatArray, kappa: float | None, rounds: int
) -> FloatArray:
    """MAP EM for T; kappa by evidence if it is None; the diagonal stays largest."""
    nobody = np.full(len(given), -1)
    for _ in range(rounds):
        n = counts(posterior(probs, likelihood(given, nobody, noise)), given)
        strength = strength_by_evidence(n) if kappa is None else kappa
        pseudo = n + strength * prior_mean(n)
        free = pseudo / pseudo.sum(1, keepdims=True)
        noise = np.array(
            [
                row if row[k] >= row.max() else restricted_row(weights / weights.sum(), k)
                for k, (row, weights) in enumerate(zip(free, pseudo, strict=True))
            ]
        )
    return noise


def probe_loss(weights: FloatArray, rows: FloatArray, known: FloatArray, ridge: float) -> float:
    """mean_i -log p(y_i | x_i) + ridge/2 |W|^2; the last row of W is the bias, hardly penalised."""
    penalty = np.full(len(weights), ridge)
    penalty[-1] = BIAS_RIDGE
    fit = -log_likelihood(softmax(rows @ weights), known).mean()
    return float(fit + 0.5 * (penalty[:, None] * weights**2).sum())


def probe_optimum(
    rows: FloatArray, known: FloatArray, ridge: float, start: FloatArray
) -> FloatArray:
    """A stationary point of ``probe_loss`` near ``start``."""
    penalty = np.full((len(start), 1), ridge)
    penalty[-1] = BIAS_RIDGE

    def gradient(flat: FloatArray) -> FloatArray:
        weights = flat.reshape(start.shape)
        probs = softmax(rows @ weights)
        slope = rows.T @ (probs - posterior(probs, known)) / len(rows) + penalty * weights
        return slope.ravel()

    found = minimize(
        lambda flat: probe_loss(flat.reshape(start.shape), rows, known, ridge),
        start.ravel(),
        jac=gradient,
        method="BFGS",
        options={"gtol": 1e-7, "maxiter": 5000},
    )
    return np.asarray(found.x).reshape(start.shape)


def stack_loss(weights: FloatArray, logits: FloatArray, known: FloatArray, caution: float) -> float:
    """mean_i -log p(y_i | x_i) at softmax(sum_m a_m Z_m), with caution/(2N) |a|^2."""
    probs = softmax(np.tensordot(weights, logits, 1))
    fit = -log_likelihood(probs, known).mean()
    return float(fit + caution / (2 * logits.shape[1]) * (weights**2).sum())


def stack_optimum(logits: FloatArray, known: FloatArray, caution: float) -> FloatArray:
    """a >= 0 of the least ``stack_loss``, from several starts."""
    n_members = len(logits)
    starts = [np.full(n_members, 1.0 / n_members), *np.eye(n_members)]
    found = [
        minimize(
            stack_loss,
            start,
            args=(logits, known, caution),
            method="L-BFGS-B",
            bounds=[(0, None)] * n_members,
            options={"ftol": 1e-14, "gtol": 1e-9},
        )
        for start in starts
    ]
    return np.asarray(min(found, key=lambda result: result.fun).x)


def surest_counts(probs: FloatArray, given: IntArray, share: float) -> FloatArray:
    """Labels of the surest rows predicted as each class: (C, C), predicted by given."""
    n_classes = probs.shape[1]
    table = np.zeros((n_classes, n_classes))
    for k in range(n_classes):
        rows = [i for i in range(len(probs)) if probs[i].argmax() == k and given[i] >= 0]
        rows.sort(key=lambda i: -probs[i, k])
        for i in rows[: math.ceil(share * len(rows))]:
            table[k, given[i]] += 1
    return table


def divergence(probs: FloatArray, truth: FloatArray, noise: FloatArray) -> FloatArray:
    """KL(p || s T) of each row, (N,)."""
    return (probs * np.log(probs / (truth @ noise))).sum(1)


def closest_truth(prob: FloatArray, noise: FloatArray) -> FloatArray:
    """argmin over the simplex of KL(p || s T), for one row, by a general-purpose solver."""

    def loss(logits: FloatArray) -> float:
        s = softmax(logits)
        return float(-(prob * np.log(s @ noise)).sum())

    return softmax(minimize(loss, np.log(prob), method="BFGS", options={"gtol": 1e-9}).x)


def score_of_independence(probs: FloatArray, given: IntArray, noise: FloatArray) -> float:
    """z of labels (N,) that do not depend on the predictions p T (N, C) of the given labels.

    Under independence a label is k with its frequency f_k, whatever the row: the prediction of the
    own label then has the mean and the variance of the row's predictions under f.
    """
    n_classes = probs.shape[1]
    frequencies = np.array([(given == k).mean() for k in range(n_classes)])
    gain = variance = 0.0
    for p, y in zip(probs, given, strict=True):
        predicted = np.array([p @ noise[:, k] for k in range(n_classes)])
        mean = float(frequencies @ predicted)
        gain += predicted[y] - mean
        variance += float(frequencies @ (predicted - mean) ** 2)
    return float(gain / np.sqrt(variance))
