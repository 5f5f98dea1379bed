"""Generalised conditional gradient (Algorithm 2) for the entropic CSOT problem (Eq. 16).

Each step linearises the coherence at Q, solves the inner problem for Q~ and moves towards it:

    G  = -log P + grad Omega(Q)                          (the paper's G = Q + ... is a slip)
    Q~ = argmin <G, Q> + epsilon <Q, log Q>              (`inner`)
    gap = <G, Q - Q~> + epsilon (H(Q) - H(Q~)) >= 0      with H(Q) = <Q, log Q>
    Q <- (1-t) Q + t Q~

Omega is quadratic, so its value anywhere on the line follows from three inner products. Q~ is a
scaled kernel, so <G,Q~> + epsilon H(Q~) = epsilon (r.log u + c.log v) needs no pass over the plan.
H is convex, so along the line

    f(t) <= f(0) - t gap + t^2 Omega(Q~ - Q),   with equality at t = 0 and t = 1,

whose minimiser is known in closed form: that is the line search. It decreases f by at least
t gap / 2, which satisfies Armijo's rule, and evaluates no trial points. Close to the solution
Omega(Q~ - Q) is below the rounding error, which a bound tells without computing it.

The start is Q = 0, where Omega and its gradient vanish: the first step solves curriculum transport
and moves all the way. (The paper starts from ab', which wastes one iteration.)

With a fixed number of inner iterations every inner problem starts from the same log v, as in
Algorithm 1, and the plan is not rounded onto its constraints. Otherwise it starts from the solution
of the last one. An unsolved inner problem may have a negative gap. Then the bound rises along the
line, and only the full step can decrease f. With a fixed number of iterations it is taken only if
it does. Otherwise it is taken anyway: the next inner problem starts where this one ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from csot.ot.execution import Execution
from csot.ot.initial_potentials import initial_potentials
from csot.ot.inner.kernel import Kernel, ScalingState
from csot.ot.inner.scaling import InnerMethod, InnerSolution, Stopping
from csot.ot.numerics import dot, plan_precision, rounding_threshold
from csot.ot.plan import marginal_error, round_onto
from csot.ot.problem import Problem

NEARLY_FULL = 0.8
"""A longer step is replaced by the full step, which needs no pass over the plan. By the bound its
decrease is still at least three quarters of the best one."""


@dataclass(frozen=True)
class Outcome:
    """The last plan (B, C, N) and the history. Per problem: (B,), float64."""

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


def minimise(
    problem: Problem,
    execution: Execution,
    inner: InnerMethod,
    stopping: Stopping,
    *,
    max_outer: int,
    tolerance: float,
    log_v: Tensor | None = None,
) -> Outcome:
    """Run Algorithm 2 until the gap is within `tolerance` of the objective."""
    loop = _OuterLoop(problem, execution, inner, stopping, tolerance, log_v)
    if problem.coherence is not None:
        for _ in range(1, max_outer):
            loop.step()
            if loop.is_finished:
                break
    return loop.outcome()


@dataclass(frozen=True)
class _Point:
    """A plan and the parts of its objective; `energy` is <-log P, Q> + epsilon H.
    The moments are None until they are needed."""

    plan: Tensor
    moments: Tensor | None
    energy: Tensor
    omega: Tensor

    @property
    def objective(self) -> Tensor:
        """Eq. 16 of each problem: transport cost and entropy, and the two coherence terms."""
        return self.energy + self.omega

    @property
    def rounding(self) -> Tensor:
        """Rounding error of the objective."""
        return torch.finfo(self.plan.dtype).eps * (self.energy.abs() + self.omega.abs())


@dataclass(frozen=True)
class _Target:
    """The solution Q~ of the linearised problem, and how the objective changes towards it."""

    point: _Point
    gap: Tensor
    """The gap as computed. With the inner problem unsolved it may be far below zero."""
    bend: Tensor
    """Omega(Q~ - Q)."""
    solved: Tensor
    """Whether the inner problem is solved."""


class _OuterLoop:
    """The state of Algorithm 2 between outer steps, for a batch of problems."""

    def __init__(
        self,
        problem: Problem,
        execution: Execution,
        inner: InnerMethod,
        stopping: Stopping,
        tolerance: float,
        log_v: Tensor | None,
    ) -> None:
        """The first step, from Q = 0, which is all the way to curriculum transport."""
        self._problem, self._reduce = problem, execution.reduce
        self._inner, self._stopping, self._tolerance = inner, stopping, tolerance
        self._kernel = Kernel(problem.log_probs, problem.marginals, execution)
        self._inner_iterations = 0
        if log_v is None and stopping.fixed is not None:
            log_v = torch.zeros_like(problem.marginals.b)
        elif log_v is None:
            log_v, self._inner_iterations = initial_potentials(
                problem, execution, self._kernel, inner
            )
        self._first_log_v = log_v
        value = self._solve_inner(None, log_v)
        plan = self._plan(out=execution.workspace.empty_like(problem.log_probs))
        self._here = self._point(plan, value)
        self._objectives = [self._here.objective]
        if problem.coherence is None:
            # Nothing was linearised: this is the solution, as accurate as the inner method's.
            self._gap = (value - self._dual_value()).clamp(min=0)
            self._converged = self._is_solved()
            return
        # Memory for the next plan, and for its difference from the current one.
        self._spare = execution.workspace.empty_like(plan)
        self._difference = execution.workspace.empty_like(plan)
        self._gap = torch.full_like(value, torch.inf)
        self._finished = self._converged = torch.zeros_like(value, dtype=torch.bool)
        self._share = torch.ones_like(value)
        self._movement = self._largest_change(plan)

    @property
    def is_finished(self) -> bool:
        return bool(self._finished.all())

    @property
    def _is_fixed(self) -> bool:
        """Whether the number of inner iterations is fixed."""
        return self._stopping.fixed is not None

    def step(self) -> None:
        """One outer step."""
        finished, here = self._finished, self._here
        target = self._target()
        self._gap = torch.where(finished, self._gap, target.gap.clamp(min=0))
        settled = target.gap.abs() <= self._tolerance * here.objective.abs()
        settled = settled & target.solved & (self._tolerance > 0)
        last_share, last_movement = self._share, self._movement
        self._share = _step_length(here, target, before=last_share)
        if self._is_fixed:
            negative = ~target.solved & (target.gap < -here.rounding)
            descends = (target.bend < target.gap).to(self._share.dtype)
            self._share = torch.where(negative, descends, self._share)
        self._movement = self._largest_change(self._difference)
        self._move(target.point, torch.where(finished, 0.0, self._share))
        self._objectives.append(self._here.objective)
        self._converged = torch.where(finished, self._converged, settled)
        # The objective is flat at its minimum, so a small gap leaves the plan less accurate than
        # the objective. Continue while entries still change.
        steady = (self._share == 1) & (last_share == 1)
        extrapolated = _remaining_movement(self._movement, last_movement)
        remaining = torch.where(steady, extrapolated, self._movement)
        precision = plan_precision(self._tolerance, self._difference.dtype)
        self._finished = finished | (settled & (2 * remaining <= precision))
        if self._is_fixed and self._tolerance > 0:
            # Without a move the next step would be the same.
            self._finished = self._finished | (self._share == 0)

    def outcome(self) -> Outcome:
        solution = self._solution
        here, error, sound = self._feasible_point()
        return Outcome(
            plan=here.plan,
            labels=_best_classes(here.plan, self._kernel, solution.state),
            log_u=solution.log_u,
            log_v=solution.state.log_v,
            objectives=torch.stack([*self._objectives[:-1], here.objective]),
            gap=self._gap,
            marginal_error=error,
            converged=self._converged & sound,
            outer_iterations=len(self._objectives),
            inner_iterations=self._inner_iterations,
        )

    def _target(self) -> _Target:
        """Linearise at the current plan and solve the inner problem."""
        coherence = self._problem.coherence
        assert coherence is not None
        self._here = here = self._with_moments(self._here)
        assert here.moments is not None
        gradient = coherence.gradient(here.moments, here.plan)
        start = self._first_log_v if self._is_fixed else self._solution.state.log_v
        value = self._solve_inner(gradient, start)
        plan = self._plan(out=self._spare)
        cross = self._inner_product(gradient, plan)
        torch.sub(plan, here.plan, out=self._difference)
        sizes = self._reduce.sum(torch.linalg.vector_norm(self._difference, 1, dim=-1))
        if bool((coherence.upper_bound(sizes) <= here.rounding).all()):
            # Omega(Q~) = <grad Omega(Q), Q~> - Omega(Q) up to rounding.
            point = _Point(plan, None, value - cross, cross - here.omega)
        else:
            point = self._point(plan, value - cross)
        return _Target(
            point,
            gap=here.energy + 2 * here.omega - value,
            bend=here.omega - cross + point.omega,
            solved=self._is_solved(),
        )

    def _solve_inner(self, gradient: Tensor | None, log_v: Tensor) -> Tensor:
        """Solve the linearised problem; the value <G, Q~> + epsilon H(Q~): (B,)."""
        self._kernel.linearise(gradient, self._problem.epsilon)
        self._solution = self._inner(self._kernel, log_v, self._stopping)
        self._inner_iterations += self._solution.iterations
        return self._problem.epsilon * self._potential_value(self._solution)

    def _is_solved(self) -> Tensor:
        return self._solution.error <= 10 * self._stopping.tolerance

    def _plan(self, out: Tensor) -> Tensor:
        return self._kernel.plan(self._solution.state, out=out)

    def _point(self, plan: Tensor, energy: Tensor) -> _Point:
        coherence = self._problem.coherence
        if coherence is None:
            return _Point(plan, None, energy, torch.zeros_like(energy))
        moments = coherence.moments(plan)
        return _Point(plan, moments, energy, coherence.value(moments, plan))

    def _with_moments(self, point: _Point) -> _Point:
        if point.moments is not None or self._problem.coherence is None:
            return point
        return replace(point, moments=self._problem.coherence.moments(point.plan))

    def _move(self, there: _Point, share: Tensor) -> None:
        """Move to (1-t) Q + t Q~, with one t per problem."""
        here, coherence = self._here, self._problem.coherence
        if bool((share == 1).all()):
            self._here, self._spare = there, here.plan
            return
        there = self._with_moments(there)
        assert coherence is not None
        assert here.moments is not None
        assert there.moments is not None
        t = share.to(here.plan.dtype)[:, None, None]
        plan = here.plan.lerp_(there.plan, t)
        # Moments are linear in the plan.
        moments = here.moments.lerp_(there.moments, t)
        self._here = _Point(plan, moments, self._energy(plan), coherence.value(moments, plan))
        self._spare = there.plan

    def _largest_change(self, difference: Tensor) -> Tensor:
        """max_ki |difference_ki| / a_i over all shards: (B,)."""
        largest = torch.maximum(difference.amax(1), -difference.amin(1))
        return self._reduce.max((largest / self._problem.marginals.a).amax(-1))

    def _feasible_point(self) -> tuple[_Point, Tensor, Tensor]:
        """The last plan, rounded if its marginals are violated, the error after rounding, and
        whether it was small before: (B,)."""
        here, marginals = self._here, self._problem.marginals
        error = marginal_error(here.plan, marginals, self._reduce)
        sound = error <= plan_precision(1e-6, here.plan.dtype)
        if self._is_fixed or bool((error <= rounding_threshold(here.plan.dtype)).all()):
            return here, error, sound
        plan = round_onto(here.plan, marginals, self._reduce)
        error = marginal_error(plan, marginals, self._reduce)
        return self._point(plan, self._energy(plan)), error, sound

    def _energy(self, plan: Tensor) -> Tensor:
        """<-log P, Q> + epsilon <Q, log Q> with 0 log 0 = 0: (B,)."""
        entropy = self._reduce.sum(torch.xlogy(plan, plan).sum(-1).sum(-1, dtype=torch.float64))
        cost = self._inner_product(self._problem.log_probs, plan)
        return self._problem.epsilon * entropy - cost

    def _inner_product(self, x: Tensor, y: Tensor) -> Tensor:
        return self._reduce.sum(dot(x, y))

    def _potential_value(self, solution: InnerSolution) -> Tensor:
        """r.log u + c.log v, which is <Q, log Q - log K> for Q = diag(u) K diag(v): (B,)."""
        state = solution.state
        rows = (solution.row_sums * solution.log_u).sum(-1, dtype=torch.float64)
        columns = (state.column_sums * state.log_v).sum(-1, dtype=torch.float64)
        return self._reduce.sum(rows) + columns

    def _dual_value(self) -> Tensor:
        """The semi-dual (see `scaling`) plus the budget, in the units of the objective: (B,)."""
        marginals, solution = self._problem.marginals, self._solution
        rows = (marginals.a * solution.log_u - solution.row_sums).sum(-1, dtype=torch.float64)
        log_v = solution.state.log_v
        columns = (marginals.b * log_v + marginals.b).sum(-1, dtype=torch.float64)
        return self._problem.epsilon * (self._reduce.sum(rows) + columns)


def _step_length(here: _Point, target: _Target, before: Tensor) -> Tensor:
    """The minimiser of the bound above; the full step where that is nearly as good, and cheaper."""
    gap, bend = target.gap.clamp(min=0), target.bend
    best = torch.where(bend > 0, gap / (2 * bend), 1.0)
    # Where gap and bend are below the rounding error, the last length is kept.
    return torch.where(gap > here.rounding, torch.where(best > NEARLY_FULL, 1.0, best), before)


def _remaining_movement(movement: Tensor, last: Tensor) -> Tensor:
    """Rough estimate of how much entries will still change, relative to row capacities: (B,).

    Consecutive full steps shrink by a constant factor, so the rest is a geometric series. Where
    they do not even halve, the last step is the safer estimate.
    """
    rate = movement / last
    return torch.where(rate < 0.5, movement * rate / (1 - rate), movement)


def _best_classes(plan: Tensor, kernel: Kernel, state: ScalingState) -> Tensor:
    """argmax_k Q_ki (B, N), taken from the kernel where the mass of a row underflows."""
    largest, labels = plan.max(1)
    if bool((largest > 0).all()):
        return labels
    return torch.where(largest > 0, labels, kernel.best_class(state))
