"""Newton's climb of ``inner`` in loops, compiled by numba: one problem, on a CPU.

With ten thousand entries a step takes less time than telling torch about it. The steps, and the
reasons for them, are those of ``inner.newton``; here they are only said once more, in loops. What
changes there has to change here: ``tests/ot/test_compiled.py`` holds the two together.

The kernel is absorbed around log v0 (see ``kernel``). Absorbing is torch's work, which has the
faster exponential: where log v has wandered too far, the climb stops and asks for it.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit

Floats: TypeAlias = npt.NDArray[np.float64]

DONE, ABSORB, HARD = range(3)
"""Over; further from log v0 than is good; class totals that underflow, which want logarithms."""

BLOCK = 256
"""Samples whose kernel is read twice while it is in the cache."""

# Sums in any order, so that they run along vectors; infinities and NaN as ever.
compiled = njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"}
)


class Frame(NamedTuple):
    """The problem, with its kernel absorbed around log v0."""

    kernel: Floats
    """K~ (C, N)."""
    scratch: Floats
    """(C, n), space for some of its samples."""
    a: Floats
    """(N,) capacities."""
    shift: Floats
    """(N,) what was taken from the logarithm."""
    most: Floats
    """(N,) e^shift: u e^shift where u = 1."""
    targets: Floats
    """(C,) class totals; 1 for classes without a share."""
    absent: Floats
    """(C,) 1 for classes without a share, else 0."""
    log_v0: Floats
    """(C,)."""
    balanced: bool


class Rules(NamedTuple):
    """The numbers that have names elsewhere. They are arguments, because what is compiled is kept,
    and would not notice that they have changed there."""

    tolerance: float
    limit: int
    patience: int
    reach: float
    longest_step: float
    kink_width: float
    first_damping: float
    least_damping: float
    negligible: float


class Place(NamedTuple):
    """Where the climb is and how it went so far; with 0 steps, it has not looked yet."""

    log_v: Floats
    steps: int
    damping: float
    best: float
    idle: int


class View(NamedTuple):
    """What one look at log v tells (see ``kernel.ScalingState``)."""

    w: Floats
    reach: Floats
    row_scale: Floats
    column_sums: Floats


@compiled
def climb(frame: Frame, rules: Rules, start: Place) -> tuple[int, Place, View]:
    """Climb until there is nothing left to gain, or torch is needed; say which, and where."""
    n_classes, n = frame.kernel.shape
    view = View(np.empty(n_classes), np.empty(n), np.empty(n), np.empty(n_classes))
    log_v, steps, damping, best, idle = start
    look(frame, log_v, view)
    error = column_error(frame, view)
    if steps == 0:
        steps, best = 1, error
        if error > 0.5 and steps < rules.limit:
            # Far off Newton's model says little: a scaling step.
            if not view.column_sums.min() > rules.negligible:
                return HARD, Place(log_v, steps, damping, best, idle), view
            log_v = log_v + np.log(frame.targets / view.column_sums)
            steps = 2
            if drift(frame, log_v) > rules.reach:
                return ABSORB, Place(log_v, steps, damping, best, idle), view
            look(frame, log_v, view)
            error = column_error(frame, view)
    while True:
        idle = 0 if error < best else idle + 1
        best = min(error, best)
        if error <= rules.tolerance or idle >= rules.patience or steps >= rules.limit:
            return DONE, Place(log_v, steps, damping, best, idle), view
        if not view.column_sums.min() > rules.negligible:
            return HARD, Place(log_v, steps, damping, best, idle), view
        direction = newton_direction(frame, rules, view, damping)
        share, looks = search(frame, view, log_v, direction)
        log_v = log_v + share * direction
        steps += looks
        damping = next_damping(rules, damping, share)
        if drift(frame, log_v) > rules.reach:
            return ABSORB, Place(log_v, steps, damping, best, idle), view
        error = column_error(frame, view)


@compiled
def look(frame: Frame, log_v: Floats, view: View) -> None:
    """Fill the view from log v."""
    n_classes, n = frame.kernel.shape
    w, column_sums = view.w, view.column_sums
    for k in range(n_classes):
        w[k] = math.exp(log_v[k] - frame.log_v0[k])
        column_sums[k] = 0.0
    for first in range(0, n, BLOCK):
        part = slice(first, min(first + BLOCK, n))
        a, most = frame.a[part], frame.most[part]
        reach, row_scale = view.reach[part], view.row_scale[part]
        size = len(a)
        for i in range(size):
            reach[i] = 0.0
        for k in range(n_classes):
            entries, factor = frame.kernel[k, part], w[k]
            for i in range(size):
                reach[i] += entries[i] * factor
        for i in range(size):
            row_scale[i] = a[i] / reach[i]
        if not frame.balanced:
            for i in range(size):
                row_scale[i] = min(row_scale[i], most[i])
        for k in range(n_classes):
            entries, total = frame.kernel[k, part], 0.0
            for i in range(size):
                total += entries[i] * row_scale[i]
            column_sums[k] += total
    for k in range(n_classes):
        column_sums[k] = column_sums[k] * w[k] + frame.absent[k]


@compiled
def column_error(frame: Frame, view: View) -> float:
    """max_k |(Q'1)_k - b_k| / b_k; NaN if there is one."""
    worst = 0.0
    for k in range(len(frame.targets)):
        error = abs(view.column_sums[k] - frame.targets[k]) / frame.targets[k]
        if error != error:
            return float(error)
        worst = max(worst, error)
    return worst


@compiled
def drift(frame: Frame, log_v: Floats) -> float:
    return float(np.abs(log_v - frame.log_v0).max())


@compiled
def newton_direction(frame: Frame, rules: Rules, view: View, damping: float) -> Floats:
    """(diag(Q'1) - sum over saturated rows QQ'/a)^-1 (Q'1 log(b / Q'1)), each entry cut off."""
    sums = view.column_sums
    n_classes = len(sums)
    missing = np.minimum(np.maximum(np.log(frame.targets / sums), -50.0), 50.0)
    curvature = saturated_coupling(frame, rules, view, damping)
    for k in range(n_classes):
        for m in range(k + 1):
            curvature[k, m] *= -view.w[k] * view.w[m]
        curvature[k, k] += sums[k] * (1 + 1e-13)
    if frame.balanced:
        curvature += sums.mean() / n_classes
    direction = sums * missing
    if not solve_by_cholesky(curvature, direction):
        direction = missing
    return np.minimum(np.maximum(direction, -rules.longest_step), rules.longest_step)


@compiled
def saturated_coupling(frame: Frame, rules: Rules, view: View, damping: float) -> Floats:
    """sum over saturated rows of QQ'/a, but for w on either side: (C, C), its lower half."""
    n_classes, n = frame.kernel.shape
    coupling = np.zeros((n_classes, n_classes))
    room = frame.scratch.shape[1]
    chosen, weights, count = np.empty(room, np.int64), np.empty(room), 0
    for i in range(n):
        share = saturation(frame, rules, view, damping, i)
        if share > 0:
            chosen[count] = i
            weights[count] = view.row_scale[i] * math.sqrt(share / frame.a[i])
            count += 1
        if count == room or i == n - 1:
            for k in range(n_classes):
                entries, row = frame.kernel[k], frame.scratch[k]
                for j in range(count):
                    row[j] = entries[chosen[j]] * weights[j]
            add_products(frame.scratch, count, coupling)
            count = 0
    return coupling


@compiled
def saturation(frame: Frame, rules: Rules, view: View, damping: float, i: int) -> float:
    """How far row i counts as one whose capacity binds, in [0, 1]."""
    if frame.balanced:
        return 1.0 - damping
    if not view.row_scale[i] < frame.most[i]:
        return 0.0
    if damping == 0:
        return 1.0
    excess = math.log(view.reach[i] / frame.a[i]) + frame.shift[i]
    depth: float = min(max(excess, 0.0) / (rules.kink_width * damping), 1.0)
    return (1.0 - damping) * depth


@compiled
def add_products(rows: Floats, count: int, total: Floats) -> None:
    """total += rows rows', of the first ``count`` columns, in the lower half of total.

    Two rows with two rows at a time, because reading them takes longer than multiplying them.
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
    """x becomes matrix^-1 x, and the matrix, of which the lower half counts, its factor; False if
    it is not positive definite."""
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
def slope_along(frame: Frame, view: View, direction: Floats) -> float:
    return float(((frame.targets - view.column_sums) * direction).sum())


@compiled
def search(frame: Frame, view: View, log_v: Floats, direction: Floats) -> tuple[float, int]:
    """The share of the way to go, and how many looks it took; the last one was there."""
    low_slope = slope_along(frame, view, direction)
    look(frame, log_v + direction, view)
    slope = slope_along(frame, view, direction)
    allowed = 0.5 * abs(low_slope)
    if slope >= -allowed:
        return 1.0, 1
    share, low, high, high_slope = 1.0, 0.0, 1.0, 0.0
    for looks in range(2, 5):
        if slope > 0:
            low, low_slope = share, slope
        else:
            high, high_slope = share, slope
        width = high - low
        secant = low + width * low_slope / (low_slope - high_slope)
        share = max(min(secant, low + 0.5 * width), low + 0.1 * width)
        look(frame, log_v + share * direction, view)
        slope = slope_along(frame, view, direction)
        if abs(slope) <= allowed:
            return share, looks
    # A kink, then: the slope jumps. Stay on the side that rises.
    look(frame, log_v + low * direction, view)
    return low, 5


@compiled
def next_damping(rules: Rules, damping: float, share: float) -> float:
    if share >= 1:
        return damping / 8 if damping > rules.least_damping else 0.0
    if share < 0.5:
        return min(max(64 * damping, rules.first_damping), 1.0)
    return damping
