"""The inner problem: min <G,Q> + epsilon <Q, log Q> over Q1 <= a, Q'1 = b (Eq. 5, Lemma 1).

Two ways up the same concave function of the C potentials x = log v, the semi-dual

    D(x) = b.x - sum_i (r_i - a_i log u_i),   u = min(a/(Kv), 1),  r_i = u_i (Kv)_i,

whose gradient is b - Q'1 and whose Hessian is -(diag(Q'1) - sum over saturated rows QQ'/a):

- ``scaling`` (Algorithm 1) is block-coordinate ascent, x += log(b / Q'1): many cheap steps;
- ``newton`` solves with the Hessian, by Cholesky for few classes and by conjugate gradients for
  many. Its curvature jumps where a row becomes saturated, so there is a line search, and damping
  that turns Newton's step into a scaling step, which always ascends, where it proves too long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from csot.ot.inner.hessian import Curvature
from csot.ot.inner.kernel import Kernel, ScalingState

CHOLESKY_CLASSES = 192
"""Up to this many classes the C x C Hessian is formed and factorised: N C^2 + C^3/3 a step."""

CG_STEPS = 60
CHOLESKY_AT_MOST = 1500
"""Most steps of conjugate gradients for one direction. Where they do not suffice the Hessian is
nearly singular, and with at most so many classes it is factorised after all."""

LONGEST_STEP = 5.0
"""No potential moves further in one Newton step: away from the optimum the model is poor."""

FIRST_DAMPING = 1e-3
LEAST_DAMPING = 1e-5
"""Where damping starts when a step proved too long, and where it ends: quadratic convergence."""

NEWTON_PATIENCE = 60
SCALING_PATIENCE = 1000
"""Stop after this many steps without a smaller error: rounding error has been reached."""


@dataclass(frozen=True)
class InnerSolution:
    """A scaled kernel whose columns sum to b, and how it was reached. Per problem: (B,)."""

    state: ScalingState
    log_u: Tensor
    row_sums: Tensor
    iterations: int
    error: Tensor


@dataclass(frozen=True)
class Stopping:
    """When an inner solver stops: at ``tolerance``, or after exactly ``fixed`` steps."""

    tolerance: float
    limit: int
    fixed: int | None = None


def scaling(kernel: Kernel, log_v: Tensor, stopping: Stopping) -> InnerSolution:
    """Algorithm 1 in the log domain."""
    progress = _Progress(stopping, SCALING_PATIENCE)
    state = kernel.look(log_v)
    error = column_error(kernel, state)
    steps = 1
    while not progress.over(steps, float(error.max())):
        state = kernel.look(_scaling_step(kernel, state))
        error = column_error(kernel, state)
        steps += 1
    return finish(kernel, state, steps)


def newton(kernel: Kernel, log_v: Tensor, stopping: Stopping) -> InnerSolution:
    """Semi-smooth Newton on the semi-dual, safeguarded by scaling steps."""
    progress = _Progress(stopping, NEWTON_PATIENCE)
    state, steps = _from_afar(kernel, log_v, progress)
    error = column_error(kernel, state)
    damping: Tensor | None = None
    while not progress.over(steps, float(error.max())):
        direction = _newton_direction(kernel, state, error, damping)
        direction.clamp_(-LONGEST_STEP, LONGEST_STEP)
        if len(error) > 1:
            direction *= (error > stopping.tolerance)[:, None]
        trial, looks, share = _search(kernel, state, direction)
        damping = _next_damping(damping, share)
        state, error = trial, column_error(kernel, trial)
        steps += looks
    return finish(kernel, state, steps)


def _from_afar(kernel: Kernel, log_v: Tensor, progress: _Progress) -> tuple[ScalingState, int]:
    """Look at log v; if that is far off, where Newton's model says little, take a scaling step."""
    state = kernel.look(log_v)
    error = float(column_error(kernel, state).max())
    if error <= 0.5 or progress.over(1, error):
        return state, 1
    return kernel.look(_scaling_step(kernel, state)), 2


def _search(
    kernel: Kernel, state: ScalingState, direction: Tensor
) -> tuple[ScalingState, int, Tensor | None]:
    """Go along ``direction`` to where the concave semi-dual stops rising, at most all the way.

    Its slope (b - Q'1).d falls along the way. The full step is right unless the slope has turned
    clearly negative there; then its zero is bracketed and approached by false position. Also
    returned: how many looks it took, and what share of the way it is (None: all, for all).
    """
    targets = kernel.marginals.targets
    low_slope = ((targets - state.column_sums) * direction).sum(-1)
    trial = kernel.look(state.log_v + direction)
    slope = ((targets - trial.column_sums) * direction).sum(-1)
    allowed = 0.5 * low_slope.abs()
    settled = slope >= -allowed
    if bool(settled.all()):
        return trial, 1, None
    share = torch.ones_like(slope)
    low, high, high_slope = torch.zeros_like(slope), share, torch.zeros_like(slope)
    for looks in range(2, 5):
        rises = slope > 0
        low, low_slope = torch.where(rises, share, low), torch.where(rises, slope, low_slope)
        high, high_slope = torch.where(rises, high, share), torch.where(rises, high_slope, slope)
        secant = low + (high - low) * low_slope / (low_slope - high_slope)
        least, most = low + 0.1 * (high - low), low + 0.5 * (high - low)
        share = torch.where(settled, share, torch.maximum(torch.minimum(secant, most), least))
        trial = kernel.look(state.log_v + share[:, None] * direction)
        slope = ((targets - trial.column_sums) * direction).sum(-1)
        settled = settled | (slope.abs() <= allowed)
        if bool(settled.all()):
            return trial, looks, share
    # A kink, then: the slope jumps. Stay on the side that rises.
    share = torch.where(settled, share, low)
    return kernel.look(state.log_v + share[:, None] * direction), looks + 1, share


def _next_damping(damping: Tensor | None, share: Tensor | None) -> Tensor | None:
    """More where a step had to be shortened by half, less where it was taken in full."""
    if share is None and damping is None:
        return None
    if share is None:
        assert damping is not None
        share = torch.ones_like(damping)
    if damping is None:
        damping = torch.zeros_like(share)
    raised = (64 * damping).clamp(FIRST_DAMPING, 1.0)
    lowered = torch.where(damping > LEAST_DAMPING, damping / 8, 0.0)
    damping = torch.where(share >= 1, lowered, torch.where(share < 0.5, raised, damping))
    return damping if bool(damping.any()) else None


def column_error(kernel: Kernel, state: ScalingState) -> Tensor:
    """max_k |(Q'1)_k - b_k| / b_k over the classes that take part: (B,)."""
    marginals = kernel.marginals
    return (state.column_sums - marginals.targets).mul_(marginals.inverse_targets).abs_().amax(-1)


class _Progress:
    """Decides when to stop, and notices when steps no longer help."""

    def __init__(self, stopping: Stopping, patience: int) -> None:
        self._stopping = stopping
        self._patience = patience
        self._best = torch.inf
        self._idle = 0

    def over(self, steps: int, worst: float) -> bool:
        """After so many steps, with this error of the worst problem."""
        if self._stopping.fixed is not None:
            return steps >= self._stopping.fixed
        self._idle = 0 if worst < self._best else self._idle + 1
        self._best = min(worst, self._best)
        return (
            worst <= self._stopping.tolerance
            or self._idle >= self._patience
            or (steps >= self._stopping.limit)
        )


def _scaling_step(kernel: Kernel, state: ScalingState) -> Tensor:
    return state.log_v + (kernel.marginals.log_targets - kernel.log_column_sums(state))


def finish(kernel: Kernel, state: ScalingState, steps: int) -> InnerSolution:
    """End on the columns, as Algorithm 1 does: class totals exact, rows within the error."""
    log_v = _scaling_step(kernel, state)
    change = log_v - state.log_v
    if float(change.abs().max()) > 1.0:
        # Unconverged, so far off that u no longer belongs to v: let u follow.
        state = kernel.look(log_v)
        log_v = _scaling_step(kernel, state)
        change = log_v - state.log_v
    error = column_error(kernel, state)
    final = replace(state, log_v=log_v, w=state.w * change.exp_(), column_sums=kernel.marginals.b)
    return InnerSolution(final, kernel.log_u(state), kernel.row_sums(final), steps, error)


def _newton_direction(
    kernel: Kernel, state: ScalingState, error: Tensor, damping: Tensor | None
) -> Tensor:
    marginals = kernel.marginals
    curvature = Curvature(kernel, state, damping)
    # Newton on log(Q'1) = log b rather than on Q'1 = b: the same near the solution, and far from
    # it exact where no row is saturated, as a scaling step is.
    missing = (marginals.log_targets - state.column_sums.log()).clamp_(-50.0, 50.0)
    residual = state.column_sums * missing
    if marginals.b.shape[-1] > CHOLESKY_CLASSES:
        step, solved = _by_conjugate_gradients(kernel, state, curvature, residual, error)
        if solved or marginals.b.shape[-1] > CHOLESKY_AT_MOST:
            return step
    return _by_cholesky(kernel, state, curvature.matrix(), residual)


def _by_cholesky(
    kernel: Kernel, state: ScalingState, curvature: Tensor, residual: Tensor
) -> Tensor:
    sums = state.column_sums
    curvature.diagonal(dim1=-2, dim2=-1).add_(sums, alpha=1e-13)
    if kernel.marginals.balanced:
        # Shifting every potential changes nothing: deflate that direction, residual is orthogonal.
        curvature += sums.mean(-1)[:, None, None] / sums.shape[-1]
    factor, info = torch.linalg.cholesky_ex(curvature)
    step = torch.cholesky_solve(residual[..., None], factor)[..., 0]
    if bool(info.any()):
        # Not positive definite to rounding: a scaling step instead.
        usable = (info == 0)[:, None] & step.isfinite().all(-1, keepdim=True)
        step = torch.where(usable, step, residual / sums)
    return step


def _by_conjugate_gradients(
    kernel: Kernel, state: ScalingState, curvature: Curvature, residual: Tensor, error: Tensor
) -> tuple[Tensor, bool]:
    """The direction as exactly as the distance from the solution deserves; whether it is that."""
    if kernel.marginals.balanced:
        # Shifting every potential changes nothing: no residual may point that way.
        share = state.column_sums / state.column_sums.sum(-1, keepdim=True)
        residual = residual - residual.sum(-1, keepdim=True) * share
    inverse = 1 / curvature.diagonal()
    x = torch.zeros_like(residual)
    preconditioned = inverse * residual
    direction = preconditioned
    energy = torch.linalg.vecdot(residual, preconditioned)
    target = error.clamp(1e-6, 1e-2) * energy
    for _ in range(CG_STEPS):
        if bool((energy <= target).all()):
            return x, True
        image = curvature.times(direction)
        bend = torch.linalg.vecdot(direction, image)
        ahead = (energy > target) & (bend > 0)
        step = torch.where(ahead, energy / bend, 0.0)[:, None]
        x = x + step * direction
        residual = residual - step * image
        preconditioned = inverse * residual
        fresh = torch.linalg.vecdot(residual, preconditioned)
        momentum = torch.where(ahead, fresh / energy, 0.0)[:, None]
        direction = preconditioned + momentum * direction
        energy = torch.where(ahead, fresh, 0.0)
    return x, False
