"""What labels are changed by, in NumPy float64 loops, straight from the equations.

p*            (N, C)  truth of the rows: p^power / sum
T*            (C, C)  the noise matrix that makes the labels likeliest under p*
w             (C,)    factors on the classes
q             (N, C)  q_k proportional to p*_k T*[k, y] w_k
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def sharpened(probs: FloatArray, power: float) -> FloatArray:
    return np.array([row**power / (row**power).sum() for row in probs])


def posterior(
    probs: FloatArray,
    power: float,
    noise: FloatArray,
    factors: FloatArray,
    given: IntArray,
    verified: IntArray,
) -> FloatArray:
    """q; without a label p* w, and where there is a verified label nothing but that one."""
    n_classes = len(noise)
    found = np.zeros_like(probs)
    for i, truth in enumerate(sharpened(probs, power)):
        for k in range(n_classes):
            likelihood = 1.0 if given[i] < 0 else noise[k, given[i]]
            found[i, k] = truth[k] * likelihood * factors[k]
            if verified[i] >= 0:
                found[i, k] = float(k == verified[i])
        found[i] /= found[i].sum()
    return found


def log_likelihood(probs: FloatArray, power: float, noise: FloatArray, given: IntArray) -> float:
    """sum_i log sum_k p*_k T[k, y_i] over the rows that have a label."""
    rows = zip(sharpened(probs, power), given, strict=True)
    return float(sum(np.log((truth * noise[:, y]).sum()) for truth, y in rows if y >= 0))


def expected_shares(truth: FloatArray, factors: FloatArray) -> FloatArray:
    """Mean over the rows of q w / sum."""
    weighted = [row * factors / (row * factors).sum() for row in truth]
    return np.mean(weighted, axis=0)


def belief_in_balance(truth: FloatArray, given: IntArray, most: float) -> float:
    """``most`` (1 - (2 distance / wrong)^2), or 0."""
    n_classes = truth.shape[1]
    distance = sum(abs(truth[:, k].mean() - 1 / n_classes) for k in range(n_classes)) / 2
    wrong = np.mean([1 - row[y] for row, y in zip(truth, given, strict=True) if y >= 0])
    return float(most * max(0.0, 1 - (2 * distance / wrong) ** 2))
