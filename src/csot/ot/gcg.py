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
which satisfies Armijo's rule, and evaluates no trial points. Near the end Omega(Q~ - Q) is lost in
rounding, as a bound tells, and the value of Omega needs no look at the samples either.

The start is Q = 0, of no cost and of no slope in Omega: the first step solves curriculum transport
and goes all the way there. (The paper starts from ab', which spends a step on knowing nothing.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from csot.ot.inner.kernel import Kernel, ScalingState
from csot.ot.inner.newton import InnerSolution, Stopping
from csot.ot.numerics import dot, plan_precision, rounding_threshold
from csot.ot.problem import Problem
from csot.ot.rounding import marginal_error, round_onto

NEARLY_FULL = 0.8
"""A best step beyond it is taken as the full one, which needs no pass over the plan. By the bound
it still gains three quarters of what the best one does."""

GENTLE_RANGE = 200.0
"""Costs that differ by more than this many epsilon make potentials long to find: then the start is
the rough solution for an epsilon four times larger, and so on."""

GUESS_ROWS = 1024
"""Rows from which the first potentials are guessed."""

InnerMethod = Callable[[Kernel, Tensor, Stopping], InnerSolution]


@dataclass(frozen=True)
class Outcome:
    """The last plan (B, C, N) and the record of the way. Per problem: (B,), float64."""

    plan: Tensor
    labels: Tensor
    log_u: Tensor
    log_v: Tensor
    objectives: Tensor
    gap: Tensor
    marginal_error: Tensor
    converged: Tensor
    outer_iterations: int
    inner_iterations: int


@dataclass(frozen=True)
class _Point:
    """A plan with what the objective is made of there; ``energy`` is <-log P, Q> + epsilon H.
    The moments are None where nobody has needed them yet."""

    plan: Tensor
    moments: Tensor | None
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
    coherence, epsilon = problem.coherence, problem.epsilon
    kernel = Kernel(problem.log_probs, problem.marginals, problem.reduce, problem.memory)
    inner_iterations = 0
    if log_v is None:
        log_v, inner_iterations = _gentle_start(problem, kernel, inner, stopping)
    # The first step, from Q = 0, where Omega has no slope: all the way to curriculum transport.
    kernel.linearise(None, epsilon)
    solution = inner(kernel, log_v, stopping)
    inner_iterations += solution.iterations
    value = epsilon * _potential_value(problem, solution)
    plan = kernel.plan(solution.state, out=problem.memory.empty_like(problem.log_probs))
    here = _point(problem, plan, value)
    objectives = [here.objective]
    if coherence is None:
        # Nothing was linearised: this is the solution, as far as the inner method went.
        gap = (value - _dual_value(problem, solution)).clamp(min=0)
        converged = solution.error <= 10 * stopping.tolerance
        return _outcome(
            problem, here, kernel, solution, objectives, gap, converged, inner_iterations
        )
    spare, difference = problem.memory.empty_like(plan), problem.memory.empty_like(plan)
    finished = converged = torch.zeros_like(value, dtype=torch.bool)
    gap = torch.full_like(value, torch.inf)
    movement = _largest_change(problem, plan)
    step = torch.ones_like(value)
    for _ in range(1, max_outer):
        here = _with_moments(problem, here)
        assert here.moments is not None
        gradient = coherence.gradient(here.moments, here.plan)
        kernel.linearise(gradient, epsilon)
        solution = inner(kernel, solution.state.log_v, stopping)
        inner_iterations += solution.iterations
        value = epsilon * _potential_value(problem, solution)
        plan = kernel.plan(solution.state, out=spare)
        cross = _inner_product(problem, gradient, plan)
        torch.sub(plan, here.plan, out=difference)
        there = _point_beside(problem, here, difference, plan, value - cross, cross)
        fresh = here.energy + 2 * here.omega - value
        gap = torch.where(finished, gap, fresh.clamp(min=0))
        # With the inner problem unsolved a gap means nothing, and may be far below zero.
        solved = solution.error <= 10 * stopping.tolerance
        settled = (fresh.abs() <= tolerance * here.objective.abs()) & solved & (tolerance > 0)
        last_step, last_movement = step, movement
        step = _step_length(here, there, cross, gap, before=last_step)
        movement = _largest_change(problem, difference)
        here, spare = _move(problem, here, there, torch.where(finished, 0.0, step))
        objectives.append(here.objective)
        converged = torch.where(finished, converged, settled)
        # The objective is flat at its minimum: a settled gap leaves the plan less precise than
        # itself. Go on while entries still have some way to go.
        steady = (step == 1) & (last_step == 1)
        left = torch.where(steady, _way_left(movement, last_movement), movement)
        finished = finished | (settled & (2 * left <= plan_precision(tolerance, plan.dtype)))
        if bool(finished.all()):
            break
    return _outcome(problem, here, kernel, solution, objectives, gap, converged, inner_iterations)


def _outcome(
    problem: Problem,
    here: _Point,
    kernel: Kernel,
    solution: InnerSolution,
    objectives: list[Tensor],
    gap: Tensor,
    converged: Tensor,
    inner_iterations: int,
) -> Outcome:
    here, error, sound = _make_feasible(problem, here)
    return Outcome(
        plan=here.plan,
        labels=_best_classes(here.plan, kernel, solution.state),
        log_u=solution.log_u,
        log_v=solution.state.log_v,
        objectives=torch.stack([*objectives[:-1], here.objective]),
        gap=gap,
        marginal_error=error,
        converged=converged & sound,
        outer_iterations=len(objectives),
        inner_iterations=inner_iterations,
    )


def _way_left(movement: Tensor, last: Tensor) -> Tensor:
    """How far entries still have to go, roughly, relative to the capacity of their row: (B,).

    Full steps in a row shrink by a steady factor: what follows is a geometric series. Where they
    do not even halve, the step itself is the safer measure.
    """
    rate = movement / last
    return torch.where(rate < 0.5, movement * rate / (1 - rate), movement)


def _best_classes(plan: Tensor, kernel: Kernel, state: ScalingState) -> Tensor:
    """argmax_k Q_ki (B, N); where a row's mass underflows, of the kernel instead."""
    most, labels = plan.max(1)
    if bool((most > 0).all()):
        return labels
    return torch.where(most > 0, labels, kernel.best_class(state))


def _gentle_start(
    problem: Problem, kernel: Kernel, inner: InnerMethod, stopping: Stopping
) -> tuple[Tensor, int]:
    """log v to start from. For a small epsilon, epsilon log v of roughly solved larger ones."""
    if stopping.fixed is not None:
        return torch.zeros_like(problem.marginals.b), 0
    lowest = problem.reduce.max(-problem.log_probs.amin().reshape(1))
    ladder = [problem.epsilon]
    while float(lowest) > GENTLE_RANGE * ladder[-1]:
        ladder.append(ladder[-1] * 4)
    log_v, steps = _first_guess(problem, ladder[-1]), 0
    rough = Stopping(tolerance=1e-2, limit=100)
    for epsilon in reversed(ladder[1:]):
        kernel.linearise(None, epsilon)
        solution = inner(kernel, log_v, rough)
        log_v, steps = solution.state.log_v * 4, steps + solution.iterations
    return log_v, steps


def _first_guess(problem: Problem, epsilon: float) -> Tensor:
    """log v with which each class, were it alone, would just fill its best rows: (B, C).

    The k-th best row is where K_i v = a, if k rows make up the class's total; seen on some of the
    rows, the same however they are sharded. (Algorithm 1 starts from v = 1.)
    """
    b, reduce, log_probs = problem.marginals.b, problem.reduce, problem.log_probs
    sizes, mine = reduce.gather(torch.tensor([log_probs.shape[-1]], device=b.device))
    total, before = int(sizes.sum()), int(sizes[: mine.start].sum())
    stride = -(-total // GUESS_ROWS)
    some, _ = reduce.gather(log_probs[..., -before % stride :: stride])
    count = some.shape[-1]
    rank = (b * count).round_().long().clamp_(1, count) - 1
    best = some.topk(int(rank.max()) + 1, dim=-1).values
    kth = best.gather(-1, rank[..., None])[..., 0].to(b.dtype)
    return torch.where(b > 0, b, 1.0).clamp_(max=1 / total).log_() - kth / epsilon


def _point(problem: Problem, plan: Tensor, energy: Tensor) -> _Point:
    if problem.coherence is None:
        return _Point(plan, None, energy, torch.zeros_like(energy))
    moments = problem.coherence.moments(plan)
    return _Point(plan, moments, energy, problem.coherence.value(moments, plan))


def _point_beside(
    problem: Problem,
    here: _Point,
    difference: Tensor,
    plan: Tensor,
    energy: Tensor,
    cross: Tensor,
) -> _Point:
    """Q~; Omega(Q~) = <grad Omega(Q), Q~> - Omega(Q), if what that leaves out is rounding."""
    assert problem.coherence is not None
    sizes = problem.reduce.sum(torch.linalg.vector_norm(difference, 1, dim=-1))
    if bool((problem.coherence.most(sizes) <= _rounding(here)).all()):
        return _Point(plan, None, energy, cross - here.omega)
    return _point(problem, plan, energy)


def _with_moments(problem: Problem, point: _Point) -> _Point:
    if point.moments is not None or problem.coherence is None:
        return point
    return replace(point, moments=problem.coherence.moments(point.plan))


def _step_length(here: _Point, there: _Point, cross: Tensor, gap: Tensor, before: Tensor) -> Tensor:
    """The minimiser of the bound above; all the way where that is nearly as good, and cheaper."""
    bend = here.omega - cross + there.omega
    best = torch.where(bend > 0, gap / (2 * bend), 1.0)
    # Where gap and bend are down to rounding error, the last step that meant something goes on.
    return torch.where(gap > _rounding(here), torch.where(best > NEARLY_FULL, 1.0, best), before)


def _rounding(here: _Point) -> Tensor:
    """What the objective's parts are uncertain by."""
    return torch.finfo(here.plan.dtype).eps * (here.energy.abs() + here.omega.abs())


def _move(problem: Problem, here: _Point, there: _Point, step: Tensor) -> tuple[_Point, Tensor]:
    """(1-t) Q + t Q~ for each problem's own t; and the buffer that is free then."""
    if bool((step == 1).all()):
        return there, here.plan
    there = _with_moments(problem, there)
    assert problem.coherence is not None
    assert here.moments is not None
    assert there.moments is not None
    share = step.to(here.plan.dtype)[:, None, None]
    plan = here.plan.lerp_(there.plan, share)
    # Moments are linear in the plan: no need to look at the samples again.
    moments = here.moments.lerp_(there.moments, share)
    omega = problem.coherence.value(moments, plan)
    return _Point(plan, moments, _energy(problem, plan), omega), there.plan


def _largest_change(problem: Problem, difference: Tensor) -> Tensor:
    """max_ki |difference_ki| / a_i over all shards: (B,)."""
    most = torch.maximum(difference.amax(1), -difference.amin(1))
    return problem.reduce.max((most / problem.marginals.a).amax(-1))


def _make_feasible(problem: Problem, here: _Point) -> tuple[_Point, Tensor, Tensor]:
    """Round plans that break their marginals; say how far they are off, and which were sound."""
    error = marginal_error(here.plan, problem.marginals, problem.reduce)
    sound = error <= plan_precision(1e-6, here.plan.dtype)
    if bool((error <= rounding_threshold(here.plan.dtype)).all()):
        return here, error, sound
    plan = round_onto(here.plan, problem.marginals, problem.reduce)
    error = marginal_error(plan, problem.marginals, problem.reduce)
    return _point(problem, plan, _energy(problem, plan)), error, sound


def _energy(problem: Problem, plan: Tensor) -> Tensor:
    """<-log P, Q> + epsilon <Q, log Q> with 0 log 0 = 0: (B,)."""
    entropy = problem.reduce.sum(torch.xlogy(plan, plan).sum(-1).sum(-1, dtype=torch.float64))
    return problem.epsilon * entropy - _inner_product(problem, problem.log_probs, plan)


def _inner_product(problem: Problem, x: Tensor, y: Tensor) -> Tensor:
    return problem.reduce.sum(dot(x, y))


def _potential_value(problem: Problem, solution: InnerSolution) -> Tensor:
    """r.log u + c.log v, which is <Q, log Q - log K> for Q = diag(u) K diag(v): (B,)."""
    state = solution.state
    rows = (solution.row_sums * solution.log_u).sum(-1, dtype=torch.float64)
    return problem.reduce.sum(rows) + (state.column_sums * state.log_v).sum(-1, dtype=torch.float64)


def _dual_value(problem: Problem, solution: InnerSolution) -> Tensor:
    """The semi-dual of ``inner`` plus the budget, in the units of the objective: (B,)."""
    marginals, state = problem.marginals, solution.state
    rows = (marginals.a * solution.log_u - solution.row_sums).sum(-1, dtype=torch.float64)
    columns = (marginals.b * state.log_v + marginals.b).sum(-1, dtype=torch.float64)
    return problem.epsilon * (problem.reduce.sum(rows) + columns)
