"""Intervals of the noise rate: across explanations, and counted among verified rows."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from csot.clean.likelihood import Evidence

LEAST_RATE_ERROR = 0.001
"""Smallest error that a noise rate is assumed to have."""
LEAST_PRIOR_ROWS = 0.2
"""Weight of a stratum's prior, in rows, however far the explanations differ."""
STRATA = torch.tensor([0.5, 0.7, 0.8, 0.9, 0.95], dtype=torch.float64)
"""Quantiles that divide the rows into strata; errors crowd at the top."""


def counted_interval(
    wrong: Tensor, extremes: tuple[Tensor, Tensor], evidence: Evidence
) -> tuple[float, float]:
    """95 % interval of the noise rate from verified rows alone, counted in strata of `wrong`.

    The rate of a stratum has a Beta posterior. Its prior has the mean of `wrong`, the model's
    chances (N,), and two standard deviations to the farther of the `extremes`, those of the first
    and the last explanation. Errors of the priors are common to all strata, as one doubt decides
    them all; errors of the counts are independent. Which rows of a stratum were verified must not
    depend on their truth.
    """
    labelled = evidence.given >= 0
    checked = labelled & (evidence.verified >= 0)
    edges = torch.quantile(wrong[labelled][:: max(1, int(labelled.sum()) // 100_000)], STRATA)
    stratum = torch.bucketize(wrong, edges)
    mean = common = own = 0.0
    for k in range(len(edges) + 1):
        inside = labelled & (stratum == k)
        share = float(inside.sum()) / float(labelled.sum())
        if share == 0:
            continue
        seen = inside & checked
        errors = float((evidence.given[seen] != evidence.verified[seen]).sum())
        prior = min(max(float(wrong[inside].mean()), 1e-3), 1 - 1e-3)
        farthest = max(abs(float(other[inside].mean()) - prior) for other in extremes)
        strength = max(prior * (1 - prior) / max(farthest / 2, 1e-3) ** 2 - 1, LEAST_PRIOR_ROWS)
        a = strength * prior + errors
        b = strength * (1 - prior) + float(seen.sum()) - errors
        mean += share * a / (a + b)
        deviation = share * math.sqrt(a * b / (a + b + 1)) / (a + b)
        left = strength / (a + b)
        common += left * deviation
        own += (1 - left) * deviation**2
    spread = 2 * math.sqrt(common**2 + own)
    return max(0.0, mean - spread), min(1.0, mean + spread)


def weighted_interval(
    rates: list[float], weights: npt.NDArray[np.float64], tail: float = 0.025
) -> tuple[float, float]:
    """The central 95 % of rates with weights that sum to one."""
    values = np.asarray(rates)
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    low, high = np.searchsorted(cumulative, [tail, 1 - tail])
    return float(values[order[low]]), float(values[order[min(int(high), len(values) - 1)]])


def widened(low: float, high: float, rows: int) -> tuple[float, float]:
    """Widen an interval by two standard errors of a share of `rows` rows, and by the error of T.

    The error of T is assumed to be a twentieth of the rate, and at least `LEAST_RATE_ERROR`: the
    matrix of a set without errors has rates of about 1e-5, which must not exclude zero.
    """
    below, above = (
        two_errors(share, rows) + max(0.05 * share, LEAST_RATE_ERROR) for share in (low, high)
    )
    return max(0.0, low - below), min(1.0, high + above)


def two_errors(share: float, rows: int) -> float:
    """Two standard errors of a share of so many rows."""
    return 2 * math.sqrt(max(share * (1 - share), 1 / rows) / rows)
