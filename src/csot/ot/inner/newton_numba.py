"""Newton's method of `newton` in loops, compiled by numba: one problem, on a CPU.

For ten thousand entries a step takes less time than the calls to torch that it consists of. The
steps and the reasons for them are those of `newton`, and the constants are the same object,
`NewtonRules`. `tests/ot/test_compiled.py` checks that both take the same steps.

The kernel is absorbed around log v0 (see `kernel`). Absorbing is left to torch, which has the
faster exponential: where log v has drifted too far, the loop returns to its caller.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit

from csot.ot.inner.newton_rules import NewtonRules

Floats: TypeAlias = npt.NDArray[np.float64]

DONE, ABSORB, UNDERFLOW = range(3)
"""Why the loop ended: finished; log v is too far from log v0; class totals underflow."""

BLOCK = 256
"""Number of samples whose kernel is read twice while it is in the cache."""

# Sums may be reordered, so that they are vectorised; infinities and NaN are respected.
compiled = njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"}
)


class AbsorbedKernel(NamedTuple):
    """The problem, with its kernel absorbed around log v0."""

    entries: Floats
    """K~ (C, N)."""
    scratch: Floats
    """(C, n), memory for some of the samples."""
    a: Floats
    """(N,) capacities."""
    shift: Floats
    """(N,) the largest log K + log v0 of each row."""
    max_row_scale: Floats
    """(N,) e^shift: u e^shift where u = 1."""
    targets: Floats
    """(C,) class totals; 1 for classes without a share."""
    without_share: Floats
    """(C,) 1 for classes without a share, else 0."""
    log_v0: Floats
    """(C,)."""
    balanced: bool
    max_drift: float
    """Largest |log v - log v0|."""
    underflow: float
    """Class totals below this need the log domain."""


class Limits(NamedTuple):
    """When to stop (see `scaling.Stopping`)."""

    tolerance: float
    iterations: int


class Iterate(NamedTuple):
    """The current potentials and the history of the method; 0 iterations before the first."""

    log_v: Floats
    iterations: int
    damping: float
    best: float
    idle: int


class Evaluation(NamedTuple):
    """The result of evaluating log v (see `kernel.ScalingState`)."""

    w: Floats
    row_mass: Floats
    row_scale: Floats
    column_sums: Floats


@compiled
def newton(
    kernel: AbsorbedKernel, rules: NewtonRules, limits: Limits, start: Iterate
) -> tuple[int, Iterate, Evaluation]:
    """Iterate until convergence or until torch is needed; return the reason and the iterate."""
    n_classes, n = kernel.entries.shape
    found = Evaluation(np.empty(n_classes), np.empty(n), np.empty(n), np.empty(n_classes))
    log_v, iterations, damping, best, idle = start
    evaluate(kernel, log_v, found)
    error = column_error(kernel, found)
    if iterations == 0:
        iterations, best = 1, error
        if error > rules.far_off and iterations < limits.iterations:
            # Far from the solution Newton's model is poor: a scaling step.
            if not found.column_sums.min() > kernel.underflow:
                return UNDERFLOW, Iterate(log_v, iterations, damping, best, idle), found
            log_v = log_v + np.log(kernel.targets / found.column_sums)
            iterations = 2
            if drift(kernel, log_v) > kernel.max_drift:
                return ABSORB, Iterate(log_v, iterations, damping, best, idle), found
            evaluate(kernel, log_v, found)
            error = column_error(kernel, found)
    while True:
        idle = 0 if error < best else idle + 1
        best = min(error, best)
        if error <= limits.tolerance or idle >= rules.patience or iterations >= limits.iterations:
            return DONE, Iterate(log_v, iterations, damping, best, idle), found
        if not found.column_sums.min() > kernel.underflow:
            return UNDERFLOW, Iterate(log_v, iterations, damping, best, idle), found
        direction = newton_direction(kernel, rules, found, damping)
        share, evaluations = line_search(kernel, rules, found, log_v, direction)
        log_v = log_v + share * direction
        iterations += evaluations
        damping = next_damping(rules, damping, share)
        if drift(kernel, log_v) > kernel.max_drift:
            return ABSORB, Iterate(log_v, iterations, damping, best, idle), found
        error = column_error(kernel, found)


@compiled
def evaluate(kernel: AbsorbedKernel, log_v: Floats, found: Evaluation) -> None:
    """Evaluate log v, writing to `found`."""
    n_classes, n = kernel.entries.shape
    w, column_sums = found.w, found.column_sums
    for k in range(n_classes):
        w[k] = math.exp(log_v[k] - kernel.log_v0[k])
        column_sums[k] = 0.0
    for first in range(0, n, BLOCK):
        part = slice(first, min(first + BLOCK, n))
        a, largest = kernel.a[part], kernel.max_row_scale[part]
        row_mass, row_scale = found.row_mass[part], found.row_scale[part]
        size = len(a)
        for i in range(size):
            row_mass[i] = 0.0
        for k in range(n_classes):
            entries, factor = kernel.entries[k, part], w[k]
            for i in range(size):
                row_mass[i] += entries[i] * factor
        for i in range(size):
            row_scale[i] = a[i] / row_mass[i]
        if not kernel.balanced:
            for i in range(size):
                row_scale[i] = min(row_scale[i], largest[i])
        for k in range(n_classes):
            entries, total = kernel.entries[k, part], 0.0
            for i in range(size):
                total += entries[i] * row_scale[i]
            column_sums[k] += total
    for k in range(n_classes):
        column_sums[k] = column_sums[k] * w[k] + kernel.without_share[k]


@compiled
def column_error(kernel: AbsorbedKernel, found: Evaluation) -> float:
    """max_k |(Q'1)_k - b_k| / b_k; NaN if one of them is."""
    worst = 0.0
    for k in range(len(kernel.targets)):
        error = abs(found.column_sums[k] - kernel.targets[k]) / kernel.targets[k]
        if error != error:
            return float(error)
        worst = max(worst, error)
    return worst


@compiled
def drift(kernel: AbsorbedKernel, log_v: Floats) -> float:
    return float(np.abs(log_v - kernel.log_v0).max())


@compiled
def newton_direction(
    kernel: AbsorbedKernel, rules: NewtonRules, found: Evaluation, damping: float
) -> Floats:
    """(diag(Q'1) - sum over saturated rows QQ'/a)^-1 (Q'1 log(b / Q'1)), entries clipped."""
    sums = found.column_sums
    n_classes = len(sums)
    bound = rules.max_log_residual
    missing = np.minimum(np.maximum(np.log(kernel.targets / sums), -bound), bound)
    curvature = saturated_coupling(kernel, rules, found, damping)
    for k in range(n_classes):
        for m in range(k + 1):
            curvature[k, m] *= -found.w[k] * found.w[m]
        curvature[k, k] += sums[k] * (1 + rules.ridge)
    if kernel.balanced:
        curvature += sums.mean() / n_classes
    direction = sums * missing
    if not solve_by_cholesky(curvature, direction):
        direction = missing
    return np.minimum(np.maximum(direction, -rules.max_step), rules.max_step)


@compiled
def saturated_coupling(
    kernel: AbsorbedKernel, rules: NewtonRules, found: Evaluation, damping: float
) -> Floats:
    """sum over saturated rows of QQ'/a, without the factors w: (C, C), lower triangle."""
    n_classes, n = kernel.entries.shape
    coupling = np.zeros((n_classes, n_classes))
    capacity = kernel.scratch.shape[1]
    chosen, weights, count = np.empty(capacity, np.int64), np.empty(capacity), 0
    for i in range(n):
        share = saturation(kernel, rules, found, damping, i)
        if share > 0:
            chosen[count] = i
            weights[count] = found.row_scale[i] * math.sqrt(share / kernel.a[i])
            count += 1
        if count == capacity or i == n - 1:
            for k in range(n_classes):
                entries, row = kernel.entries[k], kernel.scratch[k]
                for j in range(count):
                    row[j] = entries[chosen[j]] * weights[j]
            add_products(kernel.scratch, count, coupling)
            count = 0
    return coupling


@compiled
def saturation(
    kernel: AbsorbedKernel, rules: NewtonRules, found: Evaluation, damping: float, i: int
) -> float:
    """The degree to which the capacity of row i counts as binding, in [0, 1]."""
    if kernel.balanced:
        return 1.0 - damping
    if not found.row_scale[i] < kernel.max_row_scale[i]:
        return 0.0
    if damping == 0:
        return 1.0
    excess = math.log(found.row_mass[i] / kernel.a[i]) + kernel.shift[i]
    depth: float = min(max(excess, 0.0) / (rules.kink_width * damping), 1.0)
    return (1.0 - damping) * depth


@compiled
def add_products(rows: Floats, count: int, total: Floats) -> None:
    """total += rows rows' over the first `count` columns, in the lower triangle of total.

    Works on blocks of 2 x 2 rows, because reading them takes longer than multiplying them.
    """
    n_rows = len(rows)
    for k in range(0, n_rows - 1, 2):
        p, q = rows[k], rows[k + 1]
        for m in range(0, k + 2, 2):
            x, y = rows[m], rows[m + 1]
            px = py = qx = qy = 0.0
            for j in range(count):
                px += p[j] * x[j]
                py += p[j] * y[j]
                qx += q[j] * x[j]
                qy += q[j] * y[j]
            total[k, m] += px
            total[k, m + 1] += py
            total[k + 1, m] += qx
            total[k + 1, m + 1] += qy
    if n_rows % 2 == 1:
        p = rows[n_rows - 1]
        for m in range(n_rows):
            x, px = rows[m], 0.0
            for j in range(count):
                px += p[j] * x[j]
            total[n_rows - 1, m] += px


@compiled
def solve_by_cholesky(matrix: Floats, x: Floats) -> bool:
    """Solve in place: x becomes matrix^-1 x, and the lower triangle of the matrix its factor.

    Returns False if the matrix is not positive definite.
    """
    n = len(x)
    for j in range(n):
        pivot = matrix[j, j]
        for k in range(j):
            pivot -= matrix[j, k] * matrix[j, k]
        if not pivot > 0:
            return False
        pivot = math.sqrt(pivot)
        matrix[j, j] = pivot
        for i in range(j + 1, n):
            entry = matrix[i, j]
            for k in range(j):
                entry -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = entry / pivot
    for i in range(n):
        for k in range(i):
            x[i] -= matrix[i, k] * x[k]
        x[i] /= matrix[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= matrix[i, i]
        for k in range(i):
            x[k] -= matrix[i, k] * x[i]
    return True


@compiled
def slope_along(kernel: AbsorbedKernel, found: Evaluation, direction: Floats) -> float:
    return float(((kernel.targets - found.column_sums) * direction).sum())


@compiled
def line_search(
    kernel: AbsorbedKernel,
    rules: NewtonRules,
    found: Evaluation,
    log_v: Floats,
    direction: Floats,
) -> tuple[float, int]:
    """The share of the full step, and the number of evaluations; the last one is at that share."""
    low_slope = slope_along(kernel, found, direction)
    evaluate(kernel, log_v + direction, found)
    slope = slope_along(kernel, found, direction)
    allowed = rules.slope_slack * abs(low_slope)
    if slope >= -allowed:
        return 1.0, 1
    share, low, high, high_slope = 1.0, 0.0, 1.0, 0.0
    for number in range(rules.max_trials):
        if slope > 0:
            low, low_slope = share, slope
        else:
            high, high_slope = share, slope
        width = high - low
        secant = low + width * low_slope / (low_slope - high_slope)
        share = max(min(secant, low + rules.max_shrink * width), low + rules.min_shrink * width)
        evaluate(kernel, log_v + share * direction, found)
        slope = slope_along(kernel, found, direction)
        if abs(slope) <= allowed:
            return share, 2 + number
    # The slope jumps at a kink: stay on the side where it is positive.
    evaluate(kernel, log_v + low * direction, found)
    return low, 2 + rules.max_trials


@compiled
def next_damping(rules: NewtonRules, damping: float, share: float) -> float:
    if share >= 1:
        return damping / rules.lower_damping if damping > rules.min_damping else 0.0
    if share < rules.short_step:
        return min(max(rules.raise_damping * damping, rules.first_damping), 1.0)
    return damping
