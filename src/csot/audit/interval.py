"""A share of a finite population, from a stratified random sample, with a 95 % interval.

    H, N_h      strata and their sizes; W_h = N_h / sum N
    n_h, x_h    rows judged in a stratum, and those of them that count
    theta       sum_h W_h p_h, p_h the share in stratum h;  estimate: sum_h W_h x_h / n_h

A sample without replacement says more than one with: n_h counts as n'_h =
n_h (N_h - 1) / (N_h - n_h) and x_h as x'_h = x_h n'_h / n_h; a stratum that was judged entirely is
a constant. Let p(theta) be

    argmax_p  l(p) = sum_h x'_h log p_h + (n'_h - x'_h) log(1 - p_h)   s.t.  sum_h W_h p_h = theta.

The interval holds every theta that one of two tests at 5 % does not reject:

    score               (theta - estimate)^2 <= z^2 sum_h W_h^2 p_h(theta) (1 - p_h(theta)) / n'_h
    likelihood ratio    2 (l(x / n) - l(p(theta))) <= z^2

with z^2 = 1.96^2 n / (n - H + 1), n = sum n_h: one share is fitted per stratum, which makes the
variance look smaller than it is.
One stratum: Wilson's interval, and the likelihood's where it reaches further. The score test is too
short where a few rare cases fix the lower end, the likelihood ratio where no case was found; their
union is neither. Independent Beta posteriors would not do: ten strata without a single error in
ten rows each would add up to an error rate of 4.5 % that excludes zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from csot._core.array_types import Floats
from csot.runs.noise import Z

LEVEL = 0.95
SECTIONS, ROUNDS = 16, 12
"""Parts of an interval that are tried at once, and how often: 16**12 = 2**48, as 48 bisections."""


@dataclass(frozen=True)
class Estimate:
    """A share and its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def margin(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def __format__(self, spec: str) -> str:
        return f"{self.value:{spec}} ({self.low:{spec}} to {self.high:{spec}})"


def stratified_share(
    counted: npt.ArrayLike,
    judged: npt.ArrayLike,
    sizes: npt.ArrayLike,
    expected: npt.ArrayLike | None = None,
) -> Estimate:
    """theta for x, n and N (H,), which need not be whole numbers.

    A stratum without a judged row may hold any share: the interval says so, and the estimate takes
    `expected` (H,) there, else one half.
    """
    x, n, size = (np.asarray(a, dtype=np.float64) for a in (counted, judged, sizes))
    weight = size / size.sum()
    unseen, whole = n <= 0, n >= size
    share = np.divide(x, n, out=np.full(len(x), 0.5), where=~unseen)
    if expected is not None:
        share = np.where(unseen, np.asarray(expected, dtype=np.float64), share)
    some = ~unseen & ~whole
    fixed = float(weight[whole] @ share[whole])
    low, high = fixed, fixed + float(weight[unseen].sum())
    if some.any():
        n_effective = (n * (size - 1) / np.where(whole, 1.0, size - n))[some]
        total = float(n[some].sum())
        critical = Z**2 * total / max(total - int(some.sum()) + 1, 1.0)
        lowest, highest = _limits(share[some], n_effective, weight[some], critical)
        low, high = low + lowest, high + highest
    # What was seen is known.
    low = max(low, float(x.sum() / size.sum()))
    high = min(high, 1 - float((n - x).sum() / size.sum()))
    value = float(weight @ share)
    return Estimate(value, min(low, value), max(high, value))


def _limits(share: Floats, n: Floats, weight: Floats, critical: float) -> tuple[float, float]:
    """The lowest and the highest sum of W_h p_h that one of the tests accepts.

    p(theta) is followed by its Lagrange multiplier, exp(t) towards the lowest and -exp(t) towards
    the highest: theta moves away from the estimate, and both statistics grow, as t does. Both ends
    are searched at once, one per row, each at all the borders between the sections: NumPy takes
    hardly longer for these few numbers than for one.
    """
    scale, side = n / weight, np.array([1.0, -1.0])[:, None, None]
    low = np.full(2, np.log(1e-9 * scale.min()))
    high = np.full(2, np.log(1e12 * scale.max()))
    ends, parts = np.arange(2), np.linspace(0.0, 1.0, SECTIONS + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(ROUNDS):
            borders = low[:, None] + (high - low)[:, None] * parts
            p = _constrained(share, n, weight, side * np.exp(borders[:, 1:-1, None]))
            rejected = _smaller_statistic(share, p, n, weight) > critical
            first = np.where(rejected.any(1), rejected.argmax(1), SECTIONS - 1)
            low, high = borders[ends, first], borders[ends, first + 1]
        p = _constrained(share, n, weight, side * np.exp(low)[:, None, None])
    lowest, highest = p[:, 0] @ weight
    return float(lowest), float(highest)


def _constrained(share: Floats, n: Floats, weight: Floats, multiplier: Floats) -> Floats:
    """The root in [0, 1] of x / p - (n - x) / (1 - p) = multiplier * weight.

    (2, T, H) for multipliers (2, T, 1).
    """
    x, pull = share * n, multiplier * weight
    total = n + pull
    root = np.sqrt(np.maximum(total**2 - 4 * pull * x, 0.0))
    # Of the two forms of the root, the one that subtracts nothing.
    p = np.where(total > 0, 2 * x / (total + root), (total - root) / (2 * pull))
    return np.minimum(np.maximum(p, 0.0), 1.0)


def _smaller_statistic(share: Floats, p: Floats, n: Floats, weight: Floats) -> Floats:
    """The smaller of score and likelihood-ratio statistic, (2, T) for shares p (2, T, H)."""
    distance = ((share - p) @ weight) ** 2
    variance = (p * (1 - p)) @ (weight**2 / n)
    score = np.where(variance > 0, distance / variance, np.inf)
    gain = _x_log_y(share, share / np.maximum(p, 1e-300))
    gain += _x_log_y(1 - share, (1 - share) / np.maximum(1 - p, 1e-300))
    found: Floats = np.where(distance == 0, 0.0, np.minimum(score, 2 * gain @ n))
    return found


def _x_log_y(x: Floats, y: Floats) -> Floats:
    """x log y, 0 where x is."""
    return x * np.log(np.where(x > 0, y, 1.0))
