"""Stratified shares and their intervals in NumPy float64, straight from the equations.

    theta = sum_h W_h p_h,  W_h = N_h / sum N;  x_h of n_h judged rows of stratum h count

The constrained maximum of the likelihood comes from a general solver, limits from a root finder
along theta, the best allocation from trying all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import xlogy
from scipy.stats import chi2, hypergeom

FloatArray = NDArray[np.float64]
CRITICAL = float(chi2.ppf(0.95, 1))


def effective(n: FloatArray, size: FloatArray) -> FloatArray:
    """Rows drawn with replacement that say as much: n (N - 1) / (N - n)."""
    return n * (size - 1) / (size - n)


def log_likelihood(p: FloatArray, x: FloatArray, n: FloatArray) -> float:
    return float((xlogy(x, p) + xlogy(n - x, 1 - p)).sum())


def constrained(theta: float, x: FloatArray, n: FloatArray, weight: FloatArray) -> FloatArray:
    """argmax l(p) subject to sum W p = theta: the first share by search, the rest likewise."""
    if len(x) == 1:
        return np.array([theta / weight[0]])
    rest = float(weight[1:].sum())
    low, high = max((theta - rest) / weight[0], 0.0), min(theta / weight[0], 1.0)

    def others(first: float) -> FloatArray:
        left = min(max(theta - weight[0] * first, 0.0), rest)
        return np.array([first, *constrained(left, x[1:], n[1:], weight[1:])]).clip(0.0, 1.0)

    found = minimize_scalar(
        lambda first: -log_likelihood(others(first), x, n),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return others(float(found.x))


def is_accepted(
    theta: float, x: FloatArray, n: FloatArray, weight: FloatArray, critical: float
) -> float:
    """Positive where the score or the likelihood-ratio test does not reject theta."""
    p = constrained(theta, x, n, weight)
    estimate = float(weight @ (x / n))
    score = (theta - estimate) ** 2 / float((weight**2 * p * (1 - p) / n).sum())
    ratio = 2 * (log_likelihood(x / n, x, n) - log_likelihood(p, x, n))
    return critical - min(score, ratio)


def interval(x: FloatArray, n: FloatArray, size: FloatArray) -> tuple[float, float]:
    """All accepted theta, for strata of which some but not all rows are judged."""
    weight = size / size.sum()
    m = effective(n, size)
    y = x * m / n
    critical = CRITICAL * n.sum() / max(n.sum() - len(n) + 1, 1.0)
    estimate = float(weight @ (x / n))
    ends = []
    for end in (1e-7, 1 - 1e-7):
        if is_accepted(end, y, m, weight, critical) > 0:
            ends.append(round(end))
        else:
            inside = min(max(estimate, 1e-7), 1 - 1e-7)
            inside = inside if is_accepted(inside, y, m, weight, critical) > 0 else estimate
            ends.append(brentq(is_accepted, inside, end, (y, m, weight, critical), xtol=1e-9))
    low = max(ends[0], float(x.sum() / size.sum()))
    return low, min(ends[1], 1 - float((n - x).sum() / size.sum()))


def allocations(n: int, size: list[int]) -> Iterator[tuple[int, ...]]:
    """Every way to take n rows, at least two of each stratum that has them."""
    for counts in product(*(range(min(2, most), most + 1) for most in size)):
        if sum(counts) == n:
            yield counts


def variance(counts: tuple[int, ...], size: list[int], expected: list[float]) -> float:
    """Of the estimated total: sum N^2 q (1 - q) (1 / n - 1 / N)."""
    return sum(
        most**2 * q * (1 - q) * (1 / taken - 1 / most)
        for taken, most, q in zip(counts, size, expected, strict=True)
    )


def outcomes(wrong: list[int], n: list[int], size: list[int]) -> Iterator[tuple[list[int], float]]:
    """Every count of wrong rows that a draw without replacement can find, and its probability."""
    ranges = [range(taken + 1) for taken in n]
    for x in product(*ranges):
        chance = 1.0
        for found, bad, taken, most in zip(x, wrong, n, size, strict=True):
            chance *= float(hypergeom.pmf(found, most, bad, taken))
        if chance > 0:
            yield list(x), chance
