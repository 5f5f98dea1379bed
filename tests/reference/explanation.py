"""How labels are explained, in NumPy float64 loops, straight from the equations.

    C               number of classes; k the true one, c the perceived one, y the given one
    p, p*           (C,)    perceived and true class of a row: p* = p^power / sum
    T               (C, C)  noise matrix, T[c, y] = p(given y | perceived c)
    J               (C, C)  joint of (k, c) with marginals p* and p
    T_x             (C, C)  p(given y | true k) of one row

All arrays belong to a single row unless they are said to be (N, C).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def sharpened(p: FloatArray, power: float) -> FloatArray:
    """p*."""
    raised = p**power
    return raised / raised.sum()


def maximal_coupling(truth: FloatArray, p: FloatArray) -> FloatArray:
    """J with the largest diagonal; what the diagonal leaves over is coupled independently."""
    n_classes = len(p)
    joint = np.zeros((n_classes, n_classes))
    missing = np.array([max(truth[k] - p[k], 0.0) for k in range(n_classes)])
    left = np.array([max(p[c] - truth[c], 0.0) for c in range(n_classes)])
    moved = missing.sum()
    for k in range(n_classes):
        for c in range(n_classes):
            if k == c:
                joint[k, c] += min(truth[k], p[k])
            if moved > 0:
                joint[k, c] += missing[k] * left[c] / moved
    return joint


def coupling(p: FloatArray, power: float, guess: float) -> FloatArray:
    """J: a mixture of the maximal and the independent coupling; its marginals are checked."""
    truth = sharpened(p, power)
    joint = (1 - guess) * maximal_coupling(truth, p) + guess * np.outer(truth, p)
    assert (joint >= 0).all()
    assert np.allclose(joint.sum(1), truth, atol=1e-12, rtol=1e-7)
    assert np.allclose(joint.sum(0), p, atol=1e-12, rtol=1e-7)
    return joint


def noise_of_row(joint: FloatArray, noise: FloatArray) -> FloatArray:
    """T_x[k, y] = sum_c J(c | k) T[c, y]."""
    n_classes = len(noise)
    result = np.zeros((n_classes, n_classes))
    for k in range(n_classes):
        for y in range(n_classes):
            for c in range(n_classes):
                result[k, y] += joint[k, c] / joint[k].sum() * noise[c, y]
    return result


def posterior_of_row(
    p: FloatArray, noise: FloatArray, given: int, verified: int, power: float, guess: float
) -> FloatArray:
    """q_k = sum_c J(k | c) p_c T[c, y] / sum_j p_j T[j, y]."""
    n_classes = len(p)
    if verified >= 0:
        return np.array([1.0 if k == verified else 0.0 for k in range(n_classes)])
    if given < 0:
        return sharpened(p, power)
    joint = coupling(p, power, guess)
    marginal = sum(p[j] * noise[j, given] for j in range(n_classes))
    q = np.zeros(n_classes)
    for k in range(n_classes):
        for c in range(n_classes):
            q[k] += joint[k, c] / joint[:, c].sum() * (p[c] * noise[c, given] / marginal)
    return q


def posterior(
    probs: FloatArray,
    noise: FloatArray,
    given: IntArray,
    verified: IntArray,
    power: float,
    guess: float,
) -> FloatArray:
    """q (N, C), row by row."""
    rows = zip(probs, given, verified, strict=True)
    return np.array([posterior_of_row(p, noise, int(y), int(v), power, guess) for p, y, v in rows])


def noise_rate(posteriors: FloatArray, given: IntArray) -> float:
    """Mean of 1 - q_y over the rows with a label."""
    wrong = [1 - q[y] for q, y in zip(posteriors, given, strict=True) if y >= 0]
    return float(np.mean(wrong))


def mean_overlap(probs: FloatArray, power: float) -> float:
    """1 - mean max p* of rows (N, C)."""
    return float(np.mean([1 - sharpened(p, power).max() for p in probs]))


def power_for(probs: FloatArray, bound: float, largest: float) -> float:
    """Least power in [1, largest] whose overlap is at most the bound; the largest if there is none.

    Overlap falls with the power, so this is the root of one equation.
    """
    if mean_overlap(probs, 1.0) <= bound:
        return 1.0
    if mean_overlap(probs, largest) > bound:
        return largest
    return float(brentq(lambda power: mean_overlap(probs, power) - bound, 1.0, largest))


def excess_overlap(probs: FloatArray, power: float) -> float:
    """Mean total variation between p* and p of rows (N, C)."""
    return float(np.mean([0.5 * np.abs(sharpened(p, power) - p).sum() for p in probs]))


def flagged_rows(
    chosen: FloatArray, possible: FloatArray, weights: FloatArray, least: float
) -> set[int]:
    """Rows to flag, given each label's chance of being wrong: every k is tried.

    chosen (N,) by the explanation that ranks the rows, possible (E, N) by those that may be right,
    with probabilities weights (E,). Under explanation e, flagging the k likeliest has an expected
    F1 of 2 sum_{i<=k} w_ei / (k + sum_i w_ei). The last row flagged has a mean chance of at least
    ``least``; rows of equal chance are flagged together.
    """
    order = sorted(range(len(chosen)), key=lambda i: -chosen[i])
    best, best_score = 0, -1.0
    for k in range(1, len(chosen) + 1):
        last = order[k - 1]
        if sum(w * p[last] for w, p in zip(weights, possible, strict=True)) < least:
            continue
        score = 0.0
        for w, p in zip(weights, possible, strict=True):
            score += w * 2 * sum(p[i] for i in order[:k]) / (k + sum(p))
        if score > best_score + 1e-12:
            best, best_score = k, score
    return {i for i in range(len(chosen)) if best and chosen[i] >= chosen[order[best - 1]]}
