"""Generalised conditional gradient (Algorithm 2) for the entropic CSOT problem (Eq. 11).

Each step linearises the coherence at Q, solves the inner problem for Q~ and moves towards it:

    G  = -log P + grad Omega(Q)                          (the paper's G = Q + ... is a slip)
    Q~ = argmin <G, Q> + epsilon <Q, log Q>              (``inner``)
    gap = <G, Q - Q~> + epsilon (H(Q) - H(Q~)) >= 0      with H(Q) = <Q, log Q>
    Q <- (1-t) Q + t Q~

Omega is quadratic, so its value anywhere on the line follows from three inner products; and Q~ is
a scaled kernel, so <G,Q~> + epsilon H(Q~) = epsilon (r.log u + c.log v) needs no pass over the
plan. H is convex, so along the line

    f(t) <= f(0) - t gap + t^2 Omega(Q~ - Q),   with equality at t = 0 and t = 1,

whose minimiser is known in closed form: that is the line search. It gains at least t gap / 2,
which satisfies Armijo's rule, and evaluates no trial points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from csot.ot.feasible import marginal_error, round_onto
from csot.ot.inner import InnerSolution, Stopping
from csot.ot.kernel import Kernel, ScalingState
from csot.ot.numerics import dot, plan_precision, rounding_threshold
from csot.ot.problem import Problem

NEARLY_FULL = 0.8
"""A best step beyond it is taken as the full one, which needs no pass over the plan. By the bound
it still gains three quarters of what the best one does."""

GENTLE_RANGE = 200.0
"""Costs that differ by more than this many epsilon make potentials long to find: then the start is
the rough solution for an epsilon four times larger, and so on."""

InnerMethod = Callable[[Kernel, Tensor, Stopping], InnerSolution]


@dataclass(frozen=True)
class Outcome:
    """The last plan (B, C, N) and the record of the way. Per problem: (B,), float64."""

    plan: Tensor
    labels: Tensor
    state: ScalingState
    objectives: Tensor
    gap: Tensor
    marginal_error: Tensor
    converged: Tensor
    outer_iterations: int
    inner_iterations: int


@dataclass(frozen=True)
class _Point:
    """A plan with what the objective is made of there; ``energy`` is <-log P, Q> + epsilon H."""

    plan: Tensor
    gradient: Tensor | None
    energy: Tensor
    omega: Tensor

    @property
    def objective(self) -> Tensor:
        return self.energy + self.omega


def minimise(
    problem: Problem,
    inner: InnerMethod,
    stopping: Stopping,
    *,
    max_outer: int,
    tolerance: float,
    log_v: Tensor | None = None,
) -> Outcome:
    """Run Algorithm 2 until the gap is within ``tolerance`` of the objective."""
    marginals = problem.marginals
    product = marginals.a[:, None] * marginals.b[..., None]
    here = _evaluate(problem, product.to(problem.log_probs.dtype))
    spare = torch.empty_like(here.plan)
    kernel = Kernel(spare.shape, marginals, problem.reduce)
    objectives = [here.objective]
    finished = converged = torch.zeros_like(here.energy, dtype=torch.bool)
    gap = torch.full_like(here.energy, torch.inf)
    step = torch.ones_like(here.energy)
    inner_iterations = 0
    if log_v is None:
        log_v, inner_iterations = _gentle_start(problem, kernel, here.gradient, inner, stopping)
    for _ in range(max_outer):
        kernel.linearise(problem.log_probs, here.gradient, problem.epsilon)
        solution = inner(kernel, log_v, stopping)
        inner_iterations += solution.iterations
        log_v = solution.state.log_v
        value = problem.epsilon * _potential_value(problem, solution)
        there, cross = _at_solution(problem, here, kernel.plan(solution.state, out=spare), value)
        if problem.coherence is None:
            # Nothing was linearised: this is the solution, as far as the inner method went.
            here, gap = there, (value - _dual_value(problem, solution)).clamp(min=0)
            converged = solution.error <= 10 * stopping.tolerance
            objectives.append(here.objective)
            break
        fresh = here.energy + 2 * here.omega - value
        gap = torch.where(finished, gap, fresh.clamp(min=0))
        # With the inner problem unsolved a gap means nothing, and may be far below zero.
        solved = solution.error <= 10 * stopping.tolerance
        settled = (fresh.abs() <= tolerance * here.objective.abs()) & solved & (tolerance > 0)
        step = _step_length(here, there, cross, gap, before=step)
        here, movement, spare = _move(problem, here, there, torch.where(finished, 0.0, step))
        objectives.append(here.objective)
        converged = torch.where(finished, converged, settled)
        # The objective is flat at its minimum: a settled gap leaves the plan less precise than
        # itself. Go on while entries still move.
        still = problem.reduce.max(movement) <= plan_precision(tolerance, spare.dtype)
        finished = finished | (settled & still)
        if bool(finished.all()):
            break
    here, error, sound = _make_feasible(problem, here)
    objectives[-1] = here.objective
    return Outcome(
        plan=here.plan,
        labels=_best_classes(here.plan, kernel, solution.state),
        state=solution.state,
        objectives=torch.stack(objectives),
        gap=gap,
        marginal_error=error,
        converged=converged & sound,
        outer_iterations=len(objectives) - 1,
        inner_iterations=inner_iterations,
    )


def _best_classes(plan: Tensor, kernel: Kernel, state: ScalingState) -> Tensor:
    """argmax_k Q_ki (B, N); where a row's mass underflows, of the kernel instead."""
    most, labels = plan.max(1)
    if bool((most > 0).all()):
        return labels
    return torch.where(most > 0, labels, kernel.best_class(state))


def _gentle_start(
    problem: Problem,
    kernel: Kernel,
    gradient: Tensor | None,
    inner: InnerMethod,
    stopping: Stopping,
) -> tuple[Tensor, int]:
    """log v to start from. For a small epsilon, epsilon log v of roughly solved larger ones."""
    log_v, steps = torch.zeros_like(problem.marginals.b), 0
    if stopping.fixed is not None:
        return log_v, steps
    lowest = problem.reduce.max(-problem.log_probs.amin().reshape(1))
    ladder = [problem.epsilon]
    while float(lowest) > GENTLE_RANGE * ladder[-1]:
        ladder.append(ladder[-1] * 4)
    rough = Stopping(tolerance=1e-2, limit=100)
    for epsilon in reversed(ladder[1:]):
        kernel.linearise(problem.log_probs, gradient, epsilon)
        solution = inner(kernel, log_v, rough)
        log_v, steps = solution.state.log_v * 4, steps + solution.iterations
    return log_v, steps


def _at_solution(
    problem: Problem, here: _Point, plan: Tensor, value: Tensor
) -> tuple[_Point, Tensor]:
    """The point Q~, its energy read off <G,Q~> + epsilon H(Q~); and <grad Omega(Q), Q~>."""
    if problem.coherence is None or here.gradient is None:
        nothing = torch.zeros_like(value)
        return _Point(plan, None, value, nothing), nothing
    cross = _inner_product(problem, here.gradient, plan)
    gradient = problem.coherence.gradient(plan)
    omega = _inner_product(problem, gradient, plan) / 2
    return _Point(plan, gradient, value - cross, omega), cross


def _step_length(here: _Point, there: _Point, cross: Tensor, gap: Tensor, before: Tensor) -> Tensor:
    """The minimiser of the bound above; all the way where that is nearly as good, and cheaper."""
    bend = here.omega - cross + there.omega
    best = torch.where(bend > 0, gap / (2 * bend), 1.0)
    # Where gap and bend are down to rounding error, the last step that meant something goes on.
    return torch.where(gap > _rounding(here), torch.where(best > NEARLY_FULL, 1.0, best), before)


def _rounding(here: _Point) -> Tensor:
    """What the objective's parts are uncertain by."""
    return torch.finfo(here.plan.dtype).eps * (here.energy.abs() + here.omega.abs())


def _move(
    problem: Problem, here: _Point, there: _Point, step: Tensor
) -> tuple[_Point, Tensor, Tensor]:
    """(1-t) Q + t Q~ for each problem's own t; max |Q~ - Q| / a; a free buffer."""
    if bool((step == 1).all()):
        distance = here.plan.sub_(there.plan).abs_().amax(1)
        return there, (distance / problem.marginals.a).amax(-1), here.plan
    assert here.gradient is not None
    assert there.gradient is not None
    distance = (here.plan - there.plan).abs_().amax(1)
    share = step.to(here.plan.dtype)[:, None, None]
    plan = here.plan.lerp_(there.plan, share)
    # The gradient of a quadratic form is linear: no need to apply S again.
    gradient = here.gradient.lerp_(there.gradient, share)
    omega = _inner_product(problem, gradient, plan) / 2
    moved = _Point(plan, gradient, _energy(problem, plan), omega)
    return moved, (distance / problem.marginals.a).amax(-1), there.plan


def _make_feasible(problem: Problem, here: _Point) -> tuple[_Point, Tensor, Tensor]:
    """Round plans that break their marginals; say how far they are off, and which were sound."""
    error = marginal_error(here.plan, problem.marginals, problem.reduce)
    sound = error <= plan_precision(1e-6, here.plan.dtype)
    if bool((error <= rounding_threshold(here.plan.dtype)).all()):
        return here, error, sound
    plan = round_onto(here.plan, problem.marginals, problem.reduce)
    error = marginal_error(plan, problem.marginals, problem.reduce)
    return _evaluate(problem, plan), error, sound


def _evaluate(problem: Problem, plan: Tensor) -> _Point:
    energy = _energy(problem, plan)
    if problem.coherence is None:
        return _Point(plan, None, energy, torch.zeros_like(energy))
    gradient = problem.coherence.gradient(plan)
    return _Point(plan, gradient, energy, _inner_product(problem, gradient, plan) / 2)


def _energy(problem: Problem, plan: Tensor) -> Tensor:
    """<-log P, Q> + epsilon <Q, log Q> with 0 log 0 = 0: (B,)."""
    entropy = problem.reduce.sum(torch.xlogy(plan, plan).sum(-1).sum(-1, dtype=torch.float64))
    return problem.epsilon * entropy - _inner_product(problem, problem.log_probs, plan)


def _inner_product(problem: Problem, x: Tensor, y: Tensor) -> Tensor:
    return problem.reduce.sum(dot(x, y))


def _potential_value(problem: Problem, solution: InnerSolution) -> Tensor:
    """r.log u + c.log v, which is <Q, log Q - log K> for Q = diag(u) K diag(v): (B,)."""
    state = solution.state
    rows = (solution.row_sums * state.log_u).sum(-1, dtype=torch.float64)
    return problem.reduce.sum(rows) + (state.column_sums * state.log_v).sum(-1, dtype=torch.float64)


def _dual_value(problem: Problem, solution: InnerSolution) -> Tensor:
    """The semi-dual of ``inner`` plus the budget, in the units of the objective: (B,)."""
    marginals, state = problem.marginals, solution.state
    rows = (marginals.a * state.log_u - solution.row_sums).sum(-1, dtype=torch.float64)
    columns = (marginals.b * state.log_v + marginals.b).sum(-1, dtype=torch.float64)
    return problem.epsilon * (problem.reduce.sum(rows) + columns)
