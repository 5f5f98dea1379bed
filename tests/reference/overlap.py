"""The t mixture of log probabilities in NumPy and SciPy float64, straight from its equations.

    v_i         (D,)    centred log p_i in an orthonormal basis, D = C - 1
    r_ik                responsibilities, pi_k t_df(v_i; mu_k, Sigma_k) / sum_l of the same
    u_ik                weights, (df + D) / (df + d_ik), d_ik squared Mahalanobis distances
    w_ik = r_ik u_ik

EM for multivariate t distributions of known degrees of freedom (Peel and McLachlan 2000):

    pi_k = sum_i r_ik / N,   mu_k = sum_i w_ik v_i / sum_i w_ik
    S_k  = sum_i w_ik (v_i - mu_k)(v_i - mu_k)'            scatter
    S    = sum_k S_k / N + ridge                           pooled covariance
    Sigma_k = (S_k + s D S) / (sum_i r_ik + s D)           s rows of S per dimension; or S itself

How evenly columns are spread, from quantiles q:

    s(z) = (q95 - q05) / (q75 - q25),   s_0 = min(s of a Gaussian, medians of s over the columns)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert
from scipy.stats import multivariate_t, norm

FloatArray = NDArray[np.float64]

RIDGE, LEAST_RIDGE = 1e-6, 1e-9
"""Of the mean variance within clusters and of the mean square, added to the pooled covariance."""


def coordinates(logs: FloatArray) -> FloatArray:
    """V (N, C - 1)."""
    basis = helmert(logs.shape[1])
    return np.array([basis @ (row - row.mean()) for row in logs])


def scatter(values: FloatArray, mean: FloatArray, weights: FloatArray) -> FloatArray:
    total = np.zeros((values.shape[1], values.shape[1]))
    for value, weight in zip(values, weights, strict=True):
        total += weight * np.outer(value - mean, value - mean)
    return total


def squared_distance(value: FloatArray, mean: FloatArray, covariance: FloatArray) -> float:
    return float((value - mean) @ np.linalg.solve(covariance, value - mean))


def responsibilities(
    logs: FloatArray,
    start: FloatArray,
    *,
    df: float,
    shrinkage: float,
    pooled: bool,
    steps: int,
    tolerance: float,
) -> FloatArray:
    """r (N, C) by EM from ``start`` (N, C), until rows move by less than the tolerance."""
    values = coordinates(logs)
    n, n_classes = logs.shape
    dim = n_classes - 1
    r, u = start, np.ones_like(start)
    for _ in range(steps):
        w = r * u
        means = [(w[:, k : k + 1] * values).sum(0) / w[:, k].sum() for k in range(n_classes)]
        scatters = [scatter(values, means[k], w[:, k]) for k in range(n_classes)]
        common = sum(scatters) / n
        square = sum(w[i].sum() * values[i] @ values[i] for i in range(n)) / n
        common = common + (RIDGE * np.trace(common) + LEAST_RIDGE * square) / dim * np.eye(dim)
        covariances = [
            common
            if pooled
            else (scatters[k] + shrinkage * dim * common) / (r[:, k].sum() + shrinkage * dim)
            for k in range(n_classes)
        ]
        density = np.zeros((n, n_classes))
        for k in range(n_classes):
            family = multivariate_t(means[k], covariances[k], df=df)
            share = r[:, k].sum() / n
            for i in range(n):
                density[i, k] = share * family.pdf(values[i])
                distance = squared_distance(values[i], means[k], covariances[k])
                u[i, k] = (df + dim) / (df + distance)
        updated = density / density.sum(1, keepdims=True)
        moved = float(np.abs(updated - r).sum(1).mean())
        r = updated
        if moved < tolerance:
            break
    return r


def spread(column: FloatArray) -> float:
    """s of one column (N,)."""
    low, first, third, high = np.quantile(column, [0.05, 0.25, 0.75, 0.95])
    return float((high - low) / (third - first))


def spread_of_features(columns: FloatArray, axes: FloatArray) -> float:
    """s_0 of columns (N, D) and axes (N, D')."""
    medians = [np.median([spread(column) for column in part.T]) for part in (columns, axes)]
    return float(min(norm.ppf(0.95) / norm.ppf(0.75), *medians))
