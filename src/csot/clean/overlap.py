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

A mixture of two splits any density in two, also that of a single cluster. Two classes are therefore
believed to be two clusters only where their log odds have two peaks, or are spread more evenly than
the features themselves:

    s(z) = (q95 - q05) / (q75 - q25)                 2.44 for a Gaussian, 1.8 evenly spread
    s_0  = min(2.44, median_d s(X_d), median_d s(A_d))
    s(log odds) (1 + 2 error) < EVENER s_0,          error = 1.2 / sqrt(N)

with X (N, D) the features and A their first principal axes. Sums of many things are nearly
Gaussian, and so are most directions of an embedding, whatever its labels; two clusters shorten the
tails of the direction that separates them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from csot.clean.likelihood import by_class, softmax_rows

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
MAX_STEPS, LAST_STEPS = 20, 6
"""EM steps in all, and those of them on all rows of the sample."""
FIRST_ROWS = 2_000
"""Rows that the other steps are taken on."""
TOLERANCE = 2e-4
MOST_BELIEVED = 0.75
"""Share of the labels' overlap that is believed at most, as people tell classes apart better than
models do: where the clusters support all of it, verified rows can still say otherwise."""
TWO_PEAKS = 0.8
"""Two classes: density at the boundary, over its peak, below which there are two clusters."""
EVENER = 0.95
"""Two classes: spread of the log odds, over that of the features, below which there are two."""
COMPARED_AXES, COMPARED_COLUMNS = 16, 64
GAUSSIAN_SPREAD = 2.44
SPREAD_ERROR = 1.2
"""Relative standard error of the spread of a Gaussian sample, times the root of its size."""


@dataclass(frozen=True)
class Overlap:
    """Three measures of overlap, each an expected share of rows.

    `labels`: 1 - mean max p, as the labels have it. `clusters`: 1 - mean max r.
    `assignment`: 1 - mean r at argmax p, which also counts where clusters and labels draw
    different boundaries. `trusted` is false where the sample is too small or has one cluster;
    `measured` is false where it is too small, and the other two are those of the labels.
    """

    labels: float
    clusters: float
    assignment: float
    trusted: bool
    measured: bool = True

    @property
    def believable(self) -> float:
        """Overlap that the clusters support, always below that of the labels."""
        return min(self.clusters, MOST_BELIEVED * self.labels)


def measure_overlap(probs: Tensor, seed: int = 0, features_spread: float = 0.0) -> Overlap:
    """Overlap of held-out probabilities (N, C); on a sample of the rows where there are many.

    `features_spread`, s_0 of `spread_of_features`, helps to tell whether two classes are two
    clusters.
    """
    n, n_classes = probs.shape
    affordable = int(MAX_OPERATIONS / (n_classes * max(n_classes - 1, 1)))
    labels = 1 - float(probs.amax(1).mean())
    rows = min(n, MAX_ROWS, affordable)
    if rows < MIN_ROWS_PER_CLASS * n_classes:
        return Overlap(labels, labels, labels, trusted=False, measured=False)
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
        trusted=n_classes > 2 or _are_two_clusters(logs[:, 1] - logs[:, 0], features_spread),
    )


def spread_of_features(columns: Tensor, axes: Tensor) -> float:
    """s_0 of features (N, D) and of the same rows on their principal axes (N, D')."""
    rows = slice(None, None, max(1, len(columns) // MAX_ROWS))
    every = max(1, columns.shape[1] // COMPARED_COLUMNS)
    parts = columns[rows, ::every], axes[rows, :COMPARED_AXES]
    if not all(part.shape[1] for part in parts):
        return 0.0
    return min(GAUSSIAN_SPREAD, *(float(_spread(part).quantile(0.5)) for part in parts))


def cluster_responsibilities(logs: Tensor, start: Tensor) -> Tensor:
    """r (N, C) of the t mixture of log probabilities (N, C), from responsibilities `start`.

    Of many rows a part takes the first steps, and all of them the last ones.
    """
    values = (logs - logs.mean(1, keepdim=True)) @ _contrasts(logs.shape[1])
    shares, weights = by_class(start), torch.ones(1, 1, dtype=values.dtype)
    make = _SharedScale if start.shape[1] >= POOLED_FROM else _OwnScales
    rows, steps = make(values), MAX_STEPS
    first = max(FIRST_ROWS, MIN_ROWS_PER_CLASS * start.shape[1])
    if len(values) >= 2 * first:
        order = torch.randperm(len(values), generator=torch.Generator().manual_seed(0))
        some = rows.take(order[:first])
        _, components = _em(some, shares[order[:first]], weights, MAX_STEPS - LAST_STEPS)
        shares, weights, steps = *_expected(rows, components), LAST_STEPS - 1
    return _em(rows, shares, weights, steps)[0]


def _em(
    rows: _OwnScales | _SharedScale, shares: Tensor, weights: Tensor, steps: int
) -> tuple[Tensor, _Components]:
    """Responsibilities (N, C) and components, after so many steps or when the first stay."""
    for _ in range(steps):
        components = rows.fit(shares * weights, shares.sum(0).clamp_min(1e-9))
        updated, weights = _expected(rows, components)
        moved = float((updated - shares).abs_().mean()) * shares.shape[1]
        shares = updated
        if moved < TOLERANCE:
            break
    return shares, components


def _expected(rows: _OwnScales | _SharedScale, components: _Components) -> tuple[Tensor, Tensor]:
    """The E-step: responsibilities and weights (N, C), smaller for rows far from a component."""
    squared = rows.distances(components)
    tail = DEGREES_OF_FREEDOM + rows.dim
    log_density = -0.5 * components.log_det - 0.5 * tail * torch.log1p(squared / DEGREES_OF_FREEDOM)
    return softmax_rows(components.log_shares + log_density), tail / (DEGREES_OF_FREEDOM + squared)


@dataclass(frozen=True)
class _Components:
    """The mixture: logarithms of the shares (C,) and of the determinants of the scale matrices (C,)
    or (1,), and what the distances are computed from."""

    log_shares: Tensor
    log_det: Tensor
    position: Tensor
    scale: Tensor


def _contrasts(n_classes: int) -> Tensor:
    """Orthonormal basis (C, C - 1) of the vectors that sum to zero."""
    ones = torch.ones(n_classes, 1, dtype=torch.float64)
    basis: Tensor = torch.linalg.qr(torch.cat([ones, torch.eye(n_classes).double()[:, :-1]], 1)).Q
    return basis[:, 1:]


class _OwnScales:
    """Rows of a mixture with a scale matrix per class, shrunk towards the pooled one.

    Sums over the rows and distances to all classes are one product each with the monomials
    [v_i v_j (i <= j), v_i, 1] of every row, (N, M).
    """

    def __init__(self, values: Tensor, monomials: Tensor | None = None) -> None:
        n, self.dim = values.shape
        self.values = values
        self.rows, self.columns = torch.triu_indices(self.dim, self.dim)
        if monomials is None:
            products = values[:, self.rows] * values[:, self.columns]
            monomials = torch.cat([products, values, values.new_ones(n, 1)], 1)
        self.monomials = monomials

    def take(self, rows: Tensor) -> _OwnScales:
        """Some of the rows."""
        return _OwnScales(self.values[rows], self.monomials[rows])

    def fit(self, weighted: Tensor, counts: Tensor) -> _Components:
        """The M-step: from responsibilities times weights (N, C), and sums of the first (C,)."""
        sums = weighted.T @ self.monomials
        sizes = sums[:, -1]
        means = sums[:, -1 - self.dim : -1] / sizes.clamp_min(1e-9)[:, None]
        second = self._symmetric(sums)
        pooled = _pooled(second.sum(0), means, sizes, len(self.monomials))
        scatter = second - sizes[:, None, None] * means[:, :, None] * means[:, None, :]
        strength = SHRINKAGE * self.dim
        scales = (scatter + strength * pooled) / (counts + strength)[:, None, None]
        factors = torch.linalg.cholesky(scales)
        inverse = torch.cholesky_inverse(factors)
        shares = (counts / len(self.values)).log()
        return _Components(shares, _log_det(factors), means, inverse)

    def distances(self, components: _Components) -> Tensor:
        """Squared Mahalanobis distances (N, C)."""
        means, inverse = components.position, components.scale
        linear = (inverse @ means[:, :, None])[:, :, 0]
        quadratic = inverse[:, self.rows, self.columns] * torch.where(
            self.rows == self.columns, 1, 2
        )
        constant = (means * linear).sum(1, keepdim=True)
        coefficients = torch.cat([quadratic, -2 * linear, constant], 1)
        return (coefficients @ self.monomials.T).clamp_min_(0).T

    def _symmetric(self, sums: Tensor) -> Tensor:
        """Matrices (C, D, D) of second moments from the sums of the products."""
        matrices = sums.new_empty(len(sums), self.dim, self.dim)
        matrices[:, self.rows, self.columns] = sums[:, : len(self.rows)]
        matrices[:, self.columns, self.rows] = sums[:, : len(self.rows)]
        return matrices


class _SharedScale:
    """Rows of a mixture with one pooled scale matrix for all classes."""

    def __init__(self, values: Tensor) -> None:
        self.values, self.dim = values, values.shape[1]

    def take(self, rows: Tensor) -> _SharedScale:
        """Some of the rows."""
        return _SharedScale(self.values[rows])

    def fit(self, weighted: Tensor, counts: Tensor) -> _Components:
        """The M-step: from responsibilities times weights (N, C), and sums of the first (C,)."""
        values, sizes = self.values, weighted.sum(0)
        means = (weighted.T @ values) / sizes.clamp_min(1e-9)[:, None]
        total = values.T @ (values * weighted.sum(1, keepdim=True))
        factor = torch.linalg.cholesky(_pooled(total, means, sizes, len(values)))
        return _Components((counts / len(values)).log(), _log_det(factor[None]), means, factor)

    def distances(self, components: _Components) -> Tensor:
        """Squared Mahalanobis distances (N, C)."""
        white, centres = (
            torch.linalg.solve_triangular(components.scale, rows.T, upper=False).T
            for rows in (self.values, components.position)
        )
        squared: Tensor = (white**2).sum(1)[:, None] - 2 * white @ centres.T + (centres**2).sum(1)
        return squared.clamp_min(0)


def _pooled(total: Tensor, means: Tensor, sizes: Tensor, n_rows: int) -> Tensor:
    """The scale matrix (D, D) within classes, from the sum of v v' over all rows."""
    scatter = total - means.T @ (means * sizes[:, None])
    # The second part of the ridge is for clusters of no extent, whose variance is but rounding.
    ridge = 1e-6 * scatter.diag().mean().clamp_min(1e-12) + 1e-9 * total.diag().mean()
    return (scatter + ridge * torch.eye(len(scatter), dtype=scatter.dtype)) / n_rows


def _log_det(factors: Tensor) -> Tensor:
    """log determinants (C,) from Cholesky factors (C, D, D)."""
    return 2 * factors.diagonal(dim1=1, dim2=2).log().sum(1)


def _are_two_clusters(margins: Tensor, features_spread: float) -> bool:
    """Whether log odds (N,) show two clusters, by themselves or beside the features."""
    error = SPREAD_ERROR / math.sqrt(len(margins))
    spread = float(_spread(margins[:, None])) * (1 + 2 * error)
    return _has_two_peaks(margins) or spread < EVENER * features_spread


def _spread(columns: Tensor) -> Tensor:
    """s (D,) of columns (N, D): the range of nine tenths of the rows over that of a half."""
    levels = torch.tensor([0.05, 0.25, 0.75, 0.95], dtype=torch.float64)
    low, first, third, high = torch.quantile(columns.double(), levels, dim=0)
    spread: Tensor = (high - low) / (third - first).clamp_min(1e-12)
    return spread


def _has_two_peaks(margins: Tensor) -> bool:
    """Whether the density of log odds (N,) is clearly lower at zero than at its peak."""
    distances = margins.abs() / margins.abs().median().clamp_min(1e-12)
    counts = torch.histc(distances, bins=20, min=0.0, max=2.0)
    smooth = torch.nn.functional.avg_pool1d(counts[None, None], 3, 1)[0, 0]
    near_zero, peak = float(counts[:2].sum()), float(smooth.max())
    # Few rows make dips and peaks by chance: the dip is taken higher, and the highest of many
    # bins lower, by their standard errors.
    at_zero = (near_zero + math.sqrt(near_zero + 1)) / 2
    return at_zero < TWO_PEAKS * (peak - 1.5 * math.sqrt(peak / 3))
