"""Entropic curriculum transport (Eq. 12) by the scaling iteration (Lemma 1, Algorithm 1).

The inner problem  min <G,Q> + epsilon <Q, log Q>  over  Q1 <= a, Q'1 = b  has the solution
diag(u) K diag(v). Eliminating u leaves a concave function of the C potentials x = log v, the
semi-dual

    D(x) = b.x - sum_i (r_i - a_i log u_i),   u = min(a/(Kv), 1),  r_i = u_i (Kv)_i,

whose gradient is b - Q'1. Algorithm 1 is block-coordinate ascent on it, x += log(b / Q'1): many
cheap steps. `newton` maximises the same function in fewer, more expensive steps. u (Eq. 14) is
computed in `kernel`, v (Eq. 15) here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from csot.ot.inner.kernel import Kernel, ScalingState

PATIENCE = 1000
"""Stop after this many iterations without a smaller error: rounding error has been reached."""

MAX_LAST_CHANGE = 1.0
"""Change of a potential in the last column update above which the row scaling is updated too."""


@dataclass(frozen=True)
class Stopping:
    """When an inner method stops: at `tolerance`, or after exactly `fixed` iterations."""

    tolerance: float
    limit: int
    fixed: int | None = None


@dataclass(frozen=True)
class InnerSolution:
    """A scaled kernel whose columns sum to b, and how it was reached. `error` is (B,)."""

    state: ScalingState
    log_u: Tensor
    row_sums: Tensor
    iterations: int
    error: Tensor


InnerMethod: TypeAlias = Callable[[Kernel, Tensor, Stopping], InnerSolution]
"""From the kernel and the first log v to the solution."""


def scaling(kernel: Kernel, log_v: Tensor, stopping: Stopping) -> InnerSolution:
    """Algorithm 1 in the log domain."""
    progress = StoppingCheck(stopping, PATIENCE)
    state = kernel.evaluate(log_v)
    error = column_error(kernel, state)
    iterations = 1
    while not progress.is_over(iterations, float(error.max())):
        state = kernel.evaluate(scaling_step(kernel, state))
        error = column_error(kernel, state)
        iterations += 1
    return finish(kernel, state, iterations)


def scaling_step(kernel: Kernel, state: ScalingState) -> Tensor:
    """log of v = b / K'u (Eq. 15): (B, C)."""
    return state.log_v + (kernel.marginals.log_targets - kernel.log_column_sums(state))


def column_error(kernel: Kernel, state: ScalingState) -> Tensor:
    """max_k |(Q'1)_k - b_k| / b_k over the classes with a share: (B,)."""
    marginals = kernel.marginals
    return (state.column_sums - marginals.targets).mul_(marginals.inverse_targets).abs_().amax(-1)


def finish(kernel: Kernel, state: ScalingState, iterations: int) -> InnerSolution:
    """Update v last, as Algorithm 1 does: class totals are exact, rows within the error."""
    log_v = scaling_step(kernel, state)
    change = log_v - state.log_v
    if float(change.abs().max()) > MAX_LAST_CHANGE:
        # Far from convergence u no longer fits v: update u as well.
        state = kernel.evaluate(log_v)
        log_v = scaling_step(kernel, state)
        change = log_v - state.log_v
    error = column_error(kernel, state)
    final = replace(state, log_v=log_v, w=state.w * change.exp_(), column_sums=kernel.marginals.b)
    return InnerSolution(final, kernel.log_u(state), kernel.row_sums(final), iterations, error)


class StoppingCheck:
    """Decides when to stop, and notices when iterations no longer reduce the error."""

    def __init__(self, stopping: Stopping, patience: int) -> None:
        self._stopping = stopping
        self._patience = patience
        self._best = torch.inf
        self._idle = 0

    def is_over(self, iterations: int, worst: float) -> bool:
        """Whether to stop after this many iterations, given the largest error of the batch."""
        if self._stopping.fixed is not None:
            return iterations >= self._stopping.fixed
        self._idle = 0 if worst < self._best else self._idle + 1
        self._best = min(worst, self._best)
        return (
            worst <= self._stopping.tolerance
            or self._idle >= self._patience
            or (iterations >= self._stopping.limit)
        )
