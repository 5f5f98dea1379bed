"""How much the classes overlap: what the labels say, and what the predictions' own clusters say.

Labels that disagree with their surroundings have two explanations: classes that overlap, or wrong
labels. The labels alone cannot decide between them where the noise depends on the sample. The
cluster assumption can: classes form elliptical clusters in the space of log probabilities. A
mixture of t distributions, one per class and fitted without looking at a label, says how well the
clusters can be told apart. Overlap beyond that is not believable.

    V = centred log p in an orthonormal basis                      (N, C - 1)
    f(v) = sum_k pi_k t_df(v; mu_k, Sigma_k)                       fitted by EM, started from p
    r_ik = pi_k t_df(v_i; mu_k, Sigma_k) / f(v_i)                  responsibilities

Covariances are shrunk towards the pooled one; with many classes all share the pooled one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

MAX_ROWS = 6_000
MIN_ROWS_PER_CLASS = 30
"""Fewer rows per class in the sample than this, and the clusters are not trusted."""
MAX_OPERATIONS = 3e8
"""Entries of the distances of one EM step (rows x classes x dimensions) that are affordable."""
DEGREES_OF_FREEDOM = 30.0
"""Nearly Gaussian: heavier tails would split a single cluster into two."""
SHRINKAGE = 10.0
"""Rows of the pooled covariance per dimension that each class's covariance is shrunk by."""
POOLED_FROM = 33
"""Number of classes from which one pooled covariance serves all."""
SMALLEST_PROB = 1e-6
MAX_STEPS = 40
TOLERANCE = 2e-4
MOST_BELIEVED = 0.75
"""Share of the labels' overlap that is believed at most, as people tell classes apart better than
models do: where the clusters support all of it, verified rows can still say otherwise."""
TWO_PEAKS = 0.8
"""Two classes: density at the boundary, over its peak, below which there are two clusters."""


@dataclass(frozen=True)
class Overlap:
    """Three measures of overlap, each an expected share of rows.

    ``labels``: 1 - mean max p, as the labels have it. ``clusters``: 1 - mean max r.
    ``assignment``: 1 - mean r at argmax p, which also counts where clusters and labels draw
    different boundaries. ``trusted`` is false where the sample is too small or has one cluster.
    """

    labels: float
    clusters: float
    assignment: float
    trusted: bool

    @property
    def believable(self) -> float:
        """Overlap that the clusters support, always below that of the labels."""
        return min(self.clusters, MOST_BELIEVED * self.labels)


def measure_overlap(probs: Tensor, seed: int = 0) -> Overlap:
    """Overlap of held-out probabilities (N, C); on a sample of the rows where there are many."""
    n, n_classes = probs.shape
    affordable = int(MAX_OPERATIONS / (n_classes * max(n_classes - 1, 1)))
    labels = 1 - float(probs.amax(1).mean())
    rows = min(n, MAX_ROWS, affordable)
    if rows < MIN_ROWS_PER_CLASS * n_classes:
        return Overlap(labels, labels, labels, trusted=False)
    if rows < n:
        chosen = np.random.default_rng(seed).permutation(n)[:rows]
        probs = probs[torch.from_numpy(chosen)]
    logs = probs.double().clamp_min(SMALLEST_PROB).log()
    responsibilities = cluster_responsibilities(logs, probs.double())
    best = probs.argmax(1, keepdim=True)
    return Overlap(
        labels,
        1 - float(responsibilities.amax(1).mean()),
        1 - float(responsibilities.gather(1, best).mean()),
        trusted=n_classes > 2 or _has_two_peaks(logs[:, 1] - logs[:, 0]),
    )


def cluster_responsibilities(logs: Tensor, start: Tensor) -> Tensor:
    """r (N, C) of the t mixture of log probabilities (N, C), from responsibilities ``start``."""
    values = (logs - logs.mean(1, keepdim=True)) @ _contrasts(logs.shape[1])
    dim = values.shape[1]
    products = None if len(start[0]) >= POOLED_FROM else _products(values)
    shares = start
    weights = torch.ones_like(shares)
    for _ in range(MAX_STEPS):
        counts = shares.sum(0).clamp_min(1e-9)
        weighted = shares * weights
        means = (weighted.T @ values) / weighted.sum(0).clamp_min(1e-9)[:, None]
        covariances = _covariances(values, products, means, weighted, counts)
        squared, log_det = _distances(values, means, covariances)
        log_joint = (
            (counts / len(values)).log()
            - 0.5 * log_det
            - 0.5 * (DEGREES_OF_FREEDOM + dim) * torch.log1p(squared / DEGREES_OF_FREEDOM)
        )
        weights = (DEGREES_OF_FREEDOM + dim) / (DEGREES_OF_FREEDOM + squared)
        updated = log_joint.softmax(1)
        moved = float((updated - shares).abs().sum(1).mean())
        shares = updated
        if moved < TOLERANCE:
            break
    return shares


def _contrasts(n_classes: int) -> Tensor:
    """Orthonormal basis (C, C - 1) of the vectors that sum to zero."""
    ones = torch.ones(n_classes, 1, dtype=torch.float64)
    basis: Tensor = torch.linalg.qr(torch.cat([ones, torch.eye(n_classes).double()[:, :-1]], 1)).Q
    return basis[:, 1:]


def _products(values: Tensor) -> Tensor:
    """Products v_i v_j with i <= j of each row, (N, D (D + 1) / 2)."""
    one, other = torch.triu_indices(values.shape[1], values.shape[1])
    return values[:, one] * values[:, other]


def _covariances(
    values: Tensor, products: Tensor | None, means: Tensor, weighted: Tensor, counts: Tensor
) -> Tensor:
    """Scale matrices (C, D, D), shrunk towards the pooled one; (1, D, D) without products."""
    dim = means.shape[1]
    sizes = weighted.sum(0)
    if products is None:
        total = values.T @ (values * weighted.sum(1, keepdim=True))
        moments = total
    else:
        moments = _symmetric(weighted.T @ products, dim)
        total = moments.sum(0)
    pooled = total - means.T @ (means * sizes[:, None])
    # The second part of the ridge is for clusters of no extent, whose variance is but rounding.
    ridge = 1e-6 * pooled.diag().mean().clamp_min(1e-12) + 1e-9 * total.diag().mean()
    pooled = (pooled + ridge * torch.eye(dim).double()) / len(values)
    if products is None:
        return pooled[None]
    scatter = moments - sizes[:, None, None] * means[:, :, None] * means[:, None, :]
    strength = SHRINKAGE * dim
    return (scatter + strength * pooled) / (counts + strength)[:, None, None]


def _symmetric(upper: Tensor, dim: int) -> Tensor:
    """Symmetric matrices (C, D, D) from their upper triangles (C, D (D + 1) / 2)."""
    one, other = torch.triu_indices(dim, dim)
    matrices = upper.new_empty(len(upper), dim, dim)
    matrices[:, one, other] = upper
    matrices[:, other, one] = upper
    return matrices


def _distances(values: Tensor, means: Tensor, covariances: Tensor) -> tuple[Tensor, Tensor]:
    """Squared Mahalanobis distances (N, C) and log determinants (C or 1)."""
    factors = torch.linalg.cholesky(covariances)
    log_det = 2 * factors.diagonal(dim1=1, dim2=2).log().sum(1)
    if len(factors) == 1:
        white = torch.linalg.solve_triangular(factors[0], values.T, upper=False).T
        centres = torch.linalg.solve_triangular(factors[0], means.T, upper=False).T
        squared = (white**2).sum(1)[:, None] - 2 * white @ centres.T + (centres**2).sum(1)
        return squared.clamp_min(0), log_det
    n_classes, dim = means.shape
    # One product for all classes: whitening matrices (D, C D) side by side.
    eye = torch.eye(dim, dtype=values.dtype).expand(n_classes, -1, -1)
    whiten = torch.linalg.solve_triangular(factors, eye, upper=False)
    offsets = (whiten @ means[:, :, None]).reshape(-1)
    white = torch.addmm(-offsets, values, whiten.reshape(-1, dim).T)
    of_class = torch.eye(n_classes, dtype=values.dtype).repeat_interleave(dim, 0)
    return white.square_() @ of_class, log_det


def _has_two_peaks(margins: Tensor) -> bool:
    """Whether the density of log odds (N,) is clearly lower at zero than at its peak.

    A mixture splits any density in two, also that of one even spread; with two classes there is
    only this one dimension, so it is asked for a dip.
    """
    distances = margins.abs() / margins.abs().median().clamp_min(1e-12)
    counts = torch.histc(distances, bins=20, min=0.0, max=2.0)
    smooth = torch.nn.functional.avg_pool1d(counts[None, None], 3, 1)[0, 0]
    near_zero, peak = float(counts[:2].sum()), float(smooth.max())
    # Few rows make dips and peaks by chance: the dip is taken higher, and the highest of many
    # bins lower, by their standard errors.
    at_zero = (near_zero + math.sqrt(near_zero + 1)) / 2
    return at_zero < TWO_PEAKS * (peak - 1.5 * math.sqrt(peak / 3))
