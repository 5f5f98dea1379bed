"""Semi-smooth Newton's method on the semi-dual of the inner problem (see `scaling`).

Minus the Hessian in x = log v is diag(Q'1) - sum over saturated rows of QQ'/a. The equation for the
step is solved by Cholesky factorisation for few classes and by conjugate gradients for many. The
curvature jumps where a row becomes saturated, so there is a line search, and damping that turns
Newton's step into a scaling step, which always ascends, where steps prove too long.

`newton_numba` is the same method in loops for one small problem. The constants of both are
`NewtonRules`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from csot.ot.inner.kernel import Kernel, ScalingState
from csot.ot.inner.newton_rules import RULES
from csot.ot.inner.scaling import (
    InnerSolution,
    Stopping,
    StoppingCheck,
    column_error,
    finish,
    scaling_step,
)
from csot.ot.numerics import chunks


def newton(kernel: Kernel, log_v: Tensor, stopping: Stopping) -> InnerSolution:
    """Semi-smooth Newton on the semi-dual, safeguarded by scaling steps."""
    progress = StoppingCheck(stopping, RULES.patience)
    state, iterations = _first_state(kernel, log_v, progress)
    error = column_error(kernel, state)
    damping: Tensor | None = None
    while not progress.is_over(iterations, float(error.max())):
        direction = _newton_direction(kernel, state, error, damping)
        direction.clamp_(-RULES.max_step, RULES.max_step)
        if len(error) > 1:
            direction *= (error > stopping.tolerance)[:, None]
        state, evaluations, share = _line_search(kernel, state, direction)
        damping = _next_damping(damping, share)
        error = column_error(kernel, state)
        iterations += evaluations
    return finish(kernel, state, iterations)


def _first_state(
    kernel: Kernel, log_v: Tensor, progress: StoppingCheck
) -> tuple[ScalingState, int]:
    """Evaluate log v; far from the solution, where Newton's model is poor, take a scaling step."""
    state = kernel.evaluate(log_v)
    error = float(column_error(kernel, state).max())
    if error <= RULES.far_off or progress.is_over(1, error):
        return state, 1
    return kernel.evaluate(scaling_step(kernel, state)), 2


def _line_search(
    kernel: Kernel, state: ScalingState, direction: Tensor
) -> tuple[ScalingState, int, Tensor | None]:
    """Move along `direction` to where the concave semi-dual stops rising, at most a full step.

    The slope (b - Q'1).d decreases along the direction. The full step is accepted unless the slope
    there is clearly negative; then its zero is bracketed and approached by the method of false
    position. Also returned are the number of evaluations and the share of the full step (B,), None
    where all problems take it.
    """
    targets = kernel.marginals.targets
    low_slope = ((targets - state.column_sums) * direction).sum(-1)
    trial = kernel.evaluate(state.log_v + direction)
    slope = ((targets - trial.column_sums) * direction).sum(-1)
    allowed = RULES.slope_slack * low_slope.abs()
    accepted = slope >= -allowed
    if bool(accepted.all()):
        return trial, 1, None
    share = torch.ones_like(slope)
    low, high, high_slope = torch.zeros_like(slope), share, torch.zeros_like(slope)
    for number in range(RULES.max_trials):
        rises = slope > 0
        low, low_slope = torch.where(rises, share, low), torch.where(rises, slope, low_slope)
        high, high_slope = torch.where(rises, high, share), torch.where(rises, high_slope, slope)
        secant = low + (high - low) * low_slope / (low_slope - high_slope)
        nearest = low + RULES.min_shrink * (high - low)
        furthest = low + RULES.max_shrink * (high - low)
        inside = torch.maximum(torch.minimum(secant, furthest), nearest)
        share = torch.where(accepted, share, inside)
        trial = kernel.evaluate(state.log_v + share[:, None] * direction)
        slope = ((targets - trial.column_sums) * direction).sum(-1)
        accepted = accepted | (slope.abs() <= allowed)
        if bool(accepted.all()):
            return trial, 2 + number, share
    # The slope jumps at a kink: stay on the side where it is positive.
    share = torch.where(accepted, share, low)
    final = kernel.evaluate(state.log_v + share[:, None] * direction)
    return final, 2 + RULES.max_trials, share


def _next_damping(damping: Tensor | None, share: Tensor | None) -> Tensor | None:
    """Raised where the step had to be shortened by half, lowered where it was taken in full."""
    if share is None and damping is None:
        return None
    if share is None:
        assert damping is not None
        share = torch.ones_like(damping)
    if damping is None:
        damping = torch.zeros_like(share)
    raised = (RULES.raise_damping * damping).clamp(RULES.first_damping, 1.0)
    lowered = torch.where(damping > RULES.min_damping, damping / RULES.lower_damping, 0.0)
    kept = torch.where(share < RULES.short_step, raised, damping)
    damping = torch.where(share >= 1, lowered, kept)
    return damping if bool(damping.any()) else None


def _newton_direction(
    kernel: Kernel, state: ScalingState, error: Tensor, damping: Tensor | None
) -> Tensor:
    marginals = kernel.marginals
    curvature = Curvature(kernel, state, damping)
    # Newton on log(Q'1) = log b rather than on Q'1 = b: the same near the solution, and far from
    # it exact where no row is saturated, as a scaling step is.
    missing = marginals.log_targets - state.column_sums.log()
    residual = state.column_sums * missing.clamp_(-RULES.max_log_residual, RULES.max_log_residual)
    if marginals.b.shape[-1] > RULES.cholesky_classes:
        step, solved = _by_conjugate_gradients(kernel, state, curvature, residual, error)
        if solved or marginals.b.shape[-1] > RULES.fallback_classes:
            return step
    return _by_cholesky(kernel, state, curvature.matrix(), residual)


def _by_cholesky(
    kernel: Kernel, state: ScalingState, curvature: Tensor, residual: Tensor
) -> Tensor:
    sums = state.column_sums
    curvature.diagonal(dim1=-2, dim2=-1).add_(sums, alpha=RULES.ridge)
    if kernel.marginals.balanced:
        # Adding a constant to all potentials changes nothing: deflate that direction, to which the
        # residual is orthogonal.
        curvature += sums.mean(-1)[:, None, None] / sums.shape[-1]
    factor, info = torch.linalg.cholesky_ex(curvature)
    step = torch.cholesky_solve(residual[..., None], factor)[..., 0]
    if bool(info.any()):
        # Not positive definite up to rounding: a scaling step instead.
        usable = (info == 0)[:, None] & step.isfinite().all(-1, keepdim=True)
        step = torch.where(usable, step, residual / sums)
    return step


def _by_conjugate_gradients(
    kernel: Kernel, state: ScalingState, curvature: Curvature, residual: Tensor, error: Tensor
) -> tuple[Tensor, bool]:
    """A direction as accurate as the distance from the solution requires; whether it is found."""
    if kernel.marginals.balanced:
        # Adding a constant to all potentials changes nothing: remove that part of the residual.
        share = state.column_sums / state.column_sums.sum(-1, keepdim=True)
        residual = residual - residual.sum(-1, keepdim=True) * share
    inverse = 1 / curvature.diagonal()
    x = torch.zeros_like(residual)
    preconditioned = inverse * residual
    direction = preconditioned
    energy = torch.linalg.vecdot(residual, preconditioned)
    target = error.clamp(RULES.min_cg_tolerance, RULES.max_cg_tolerance) * energy
    for _ in range(RULES.cg_iterations):
        if bool((energy <= target).all()):
            return x, True
        image = curvature.times(direction)
        bend = torch.linalg.vecdot(direction, image)
        active = (energy > target) & (bend > 0)
        step = torch.where(active, energy / bend, 0.0)[:, None]
        x = x + step * direction
        residual = residual - step * image
        preconditioned = inverse * residual
        fresh = torch.linalg.vecdot(residual, preconditioned)
        momentum = torch.where(active, fresh / energy, 0.0)[:, None]
        direction = preconditioned + momentum * direction
        energy = torch.where(active, fresh, 0.0)
    return x, False


# Minus the Hessian of the semi-dual in log v: diag(Q'1) - sum over saturated rows of QQ'/a.
#
# With the kernel K~ and w = v/v0 (see `kernel`), and a weight r_i = u_i e^shift_i sqrt(s_i/a_i)
# for each row, where s_i in [0, 1] is the degree to which it counts as saturated, this is
#
#     diag(Q'1) - W R R' W,   R = K~ diag(r),   W = diag(w).
#
# Rows whose capacity does not bind have r = 0. Where they are the majority, they are left out.

SELECT_WORK = 8_000_000
"""N C^2 above which rows of weight zero are left out of the product."""


class Curvature:
    """Minus the Hessian of a batch of problems, (B, C, C), as a matrix or as an operator."""

    def __init__(self, kernel: Kernel, state: ScalingState, damping: Tensor | None) -> None:
        self._kernel = kernel
        self._state = state
        saturation = saturation_of(kernel, state, damping)
        self._weight = (saturation * kernel.marginals.inverse_a).sqrt_().mul_(state.row_scale)
        self._selected = self._select()

    def matrix(self) -> Tensor:
        """The whole matrix (B, C, C)."""
        w, reduce = self._state.w, self._kernel.reduce
        curvature = reduce.sum(self._products()).mul_(w[..., None]).mul_(-w[:, None])
        curvature.diagonal(dim1=-2, dim2=-1).add_(self._state.column_sums)
        return curvature

    def times(self, x: Tensor) -> Tensor:
        """Product with a vector (B, C), by two matrix-vector products."""
        kernel, w = self._kernel, self._state.w
        if self._selected is not None:
            through = torch.mv(self._selected, torch.mv(self._selected.T, (w * x)[0]))[None]
        else:
            through = kernel.times_rows(self._weight**2 * kernel.times_columns(w * x))
        return self._state.column_sums * x - w * kernel.reduce.sum(through)

    def diagonal(self) -> Tensor:
        """The diagonal (B, C), bounded away from zero, for use as a preconditioner."""
        sums = self._state.column_sums
        if self._selected is not None:
            squares = torch.linalg.vecdot(self._selected, self._selected)[None]
        else:
            squares = self._kernel.squares_times_rows(self._weight**2)
        own = self._kernel.reduce.sum(squares) * self._state.w**2
        return torch.maximum(sums - own, RULES.min_diagonal * sums)

    def _select(self) -> Tensor | None:
        """R of a single problem without its zero columns, if at least half are zero: (C, n)."""
        kernel, weight = self._kernel, self._weight
        batch, n_classes, n = kernel.absorbed.shape
        if batch > 1 or kernel.marginals.balanced or n * n_classes**2 <= SELECT_WORK:
            return None
        binding = weight[0].nonzero()[:, 0]
        if 2 * len(binding) > n:
            return None
        return kernel.absorbed[0].index_select(-1, binding).mul_(weight[0, binding])

    def _products(self) -> Tensor:
        """R R': (B, C, C)."""
        if self._selected is not None:
            return (self._selected @ self._selected.T)[None]
        absorbed, weight = self._kernel.absorbed, self._weight
        products = absorbed.new_zeros(*absorbed.shape[:2], absorbed.shape[1])
        for part in chunks(weight.shape[-1]):
            rows = self._kernel.scaled(absorbed[..., part], weight[:, part])
            products.baddbmm_(rows, rows.mT)
        return products


def saturation_of(kernel: Kernel, state: ScalingState, damping: Tensor | None) -> Tensor:
    """The degree to which the capacity of each row counts as binding, in [0, 1]: (B, N).

    Undamped: 1 where it binds, 0 where u = 1. The semi-dual's curvature jumps there, so with
    `damping` (B,) rows that barely bind count in part. With full damping none counts, and a
    Newton step becomes a scaling step.
    """
    balanced = kernel.marginals.balanced
    if damping is None:
        if balanced:
            return torch.ones_like(state.row_scale)
        return (state.row_scale < kernel.max_row_scale).to(state.row_scale.dtype)
    keep = 1 - damping[:, None]
    if balanced:
        return keep.expand_as(state.row_scale)
    depth = -kernel.log_u(state) / (RULES.kink_width * damping[:, None])
    return keep * depth.nan_to_num_(0.0, 1.0).clamp_(max=1.0)
