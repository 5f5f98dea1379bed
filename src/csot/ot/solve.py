"""`solve`: the public function for all transport problems of the paper."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from csot._core.threads import threads_for
from csot.ot.array_adapter import Array, ArrayAdapter
from csot.ot.coherence.similarity import Similarity
from csot.ot.execution import Execution, Reduce, borrow_workspace, reduction_over, without_autocast
from csot.ot.gcg import Outcome, minimise
from csot.ot.inner.dykstra import dykstra
from csot.ot.inner.newton_choice import newton
from csot.ot.inner.scaling import InnerMethod, Stopping, scaling
from csot.ot.numerics import ConvergenceWarning, marginal_tolerance
from csot.ot.plan import Plan
from csot.ot.problem import Marginals, Problem
from csot.ot.validate import (
    checked_budget,
    checked_positive,
    read_choice,
    read_coherence,
    read_labels,
    read_prior,
    read_probabilities,
    row_capacities,
)

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

WEIGHTS = ("probs", "log_probs")
ROW_CONSTRAINTS = ("auto", "inequality")
SCALES = ("absolute", "classes")

Method = Literal["auto", "newton", "scaling", "dykstra"]

INNER_METHODS: dict[str, InnerMethod] = {
    "newton": newton,
    "scaling": scaling,
    "dykstra": dykstra,
}


def solve(
    pred_probs: Array | None = None,
    *,
    log_probs: Array | None = None,
    features: Array | None = None,
    labels: Array | None = None,
    budget: float = 1.0,
    class_prior: Array | Sequence[float] | Literal["uniform", "labels"] | None = None,
    row_weights: Array | None = None,
    row_constraint: Literal["auto", "inequality"] = "auto",
    epsilon: float = 0.1,
    coherence: float | tuple[float, float] = 1.0,
    coherence_scale: Literal["absolute", "classes"] = "absolute",
    coherence_on: Literal["probs", "log_probs"] = "probs",
    similarity: str | Array | Similarity | Callable[[Tensor], Tensor] = "cosine",
    neighbours: int = 10,
    method: Method = "auto",
    max_outer: int = 10,
    max_inner: int = 1000,
    inner_iterations: int | None = None,
    tolerance: float = 1e-6,
    start: Plan | None = None,
    group: ProcessGroup | None = None,
) -> Plan:
    r"""Allocate samples to classes by curriculum and structure-aware optimal transport.

    .. code-block:: text

        min  <-log P, Q> + kappa_P Omega^P(Q) + kappa_L Omega^L(Q) + epsilon <Q, log Q>
        s.t. Q >= 0,  Q1 <= a,  Q'1 = budget * class_prior               (Eqs. 6 and 16)

        Omega^P(Q) = -<S, (P*Q)(P*Q)'>,   Omega^L(Q) = -<S, (L*Q)(L*Q)'>

    With `budget=1` the row constraint is an equality, unless `row_constraint` says otherwise.
    The named problems of the paper:

    ==========================  ===========================================
    classical OT (Sinkhorn)     `budget=1`, no features
    structure-aware OT (Eq. 3)  `budget=1`, features (and labels)
    curriculum OT               `budget=m`, no features
    CSOT (Eq. 6)                `budget=m`, features and labels
    without Omega^P, Omega^L    `coherence=(0, 1)`, `coherence=(1, 0)`
    ==========================  ===========================================

    Parameters
    ----------
    pred_probs : (N, C) or (B, N, C)
        Predicted probabilities P, NumPy or torch. A batch of B problems is solved together.
        float32 and float64 are kept; other types are computed in float32.
    log_probs : (N, C) or (B, N, C)
        log P, instead of `pred_probs`. A probability of zero costs about 103 nats.
    features : (N, D) or (B, N, D)
        Embeddings for the coherence terms. Without them, and without an operator as
        `similarity`, there is no coherence.
    labels : (N,) or (B, N)
        Given, possibly wrong labels for Omega^L; -1 where none is given.
    budget : float in (0, 1]
        m, the share of samples to allocate.
    class_prior : (C,), "uniform" or "labels"
        Shares of the classes: uniform (the paper), given, or the frequencies of `labels`.
    row_weights : (N,)
        Capacity of each row; scaled to sum to one. Uniform by default.
    row_constraint : "auto" or "inequality"
        "auto" makes Q1 <= a an equality for `budget=1`, where every row is full at the optimum.
        "inequality" keeps Algorithm 1's u = min(a/(Kv), 1) there too, as the published code does:
        the same optimum, but other plans before convergence.
    epsilon : float
        Weight of the entropy; smaller is sharper. 0.1 in the paper; 1e-3 still works.
    coherence : float or (prediction, label)
        kappa, or one value per term.
    coherence_scale : "absolute" or "classes"
        Unit of kappa: 1 (the paper), or C / budget. The gradient of a term is at most
        2 kappa budget / C in the first case, which is below epsilon for many classes, and at most
        2 kappa in the second.
    coherence_on : "probs" or "log_probs"
        What weighs Omega^P: P (the equations) or -log P (the published code).
    similarity : "cosine", "knn", an (N, N) matrix or an operator
        "cosine" never forms N x N; "knn" keeps the `neighbours` nearest. An operator is a
        function from an (N, K) tensor X to S X; S must be symmetric, and its diagonal should be
        zero. A matrix that is not symmetric is replaced by (S + S')/2, with a warning.
    neighbours : int
        Number of neighbours of `similarity="knn"`.
    method : "auto", "newton", "scaling" or "dykstra"
        Inner method: semi-dual Newton, Algorithm 1, or Algorithm S4 on full matrices. "auto" is
        Newton, by Cholesky or by conjugate gradients according to the number of classes.
    max_outer, max_inner : int
        Largest number of outer steps, and of inner steps in each of them.
    inner_iterations : int, optional
        Exactly this many inner steps, from v = 1 (or `start`) in every outer step, and no
        rounding onto the constraints: rows may exceed their capacity by `marginal_error`. With
        `tolerance=0` exactly `max_outer` outer steps too: the paper's timing table is
        `method="scaling", inner_iterations=100, tolerance=0`.
    tolerance : float
        Stop when the GCG gap is below `tolerance` times the objective.
    start : Plan, optional
        The plan of a similar problem, whose potentials are the start of the first inner problem.
    group : torch.distributed process group, optional
        The rows are sharded: every process passes its own rows and gets their part of the plan.

    Returns
    -------
    Plan
        Non-convergence is data (`plan.converged`) and one :class:`ConvergenceWarning`.

    Examples
    --------
    >>> import numpy as np, csot
    >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    >>> plan = csot.solve(probs, budget=0.5)
    >>> plan.labels
    array([0, 0, 0, 1])
    >>> plan.selected
    array([ True, False, False,  True])
    """
    reduce = reduction_over(group)
    given_probs = pred_probs if log_probs is None else log_probs
    with borrow_workspace() as workspace:
        execution = Execution(reduce, workspace)
        # Cheaper than no_grad. Results are copied, so that they can be used in a loss.
        with torch.inference_mode(), without_autocast(given_probs):
            adapter, log_p, probs = read_probabilities(pred_probs, log_probs, workspace)
            batch, n_classes, n = log_p.shape
            given = None if labels is None else read_labels(labels, adapter, (batch, n), n_classes)
            share = checked_budget(budget)
            capacities = row_capacities(row_weights, log_p, adapter, reduce)
            prior = read_prior(class_prior, given, capacities, n_classes, adapter, reduce)
            equality = read_choice("row_constraint", row_constraint, ROW_CONSTRAINTS) == "auto"
            in_classes = read_choice("coherence_scale", coherence_scale, SCALES) == "classes"
            on_probs = read_choice("coherence_on", coherence_on, WEIGHTS) == "probs"
            terms = read_coherence(
                coherence,
                n_classes / share if in_classes else 1.0,
                similarity,
                features,
                neighbours,
                probs if on_probs else -log_p,
                given,
                adapter,
                execution,
            )
            problem = Problem(
                log_probs=log_p,
                marginals=Marginals(
                    capacities,
                    share * prior,
                    balanced=share == 1 and equality,
                ),
                coherence=terms,
                epsilon=checked_positive("epsilon", epsilon),
            )
            name = _inner_method(method)
            with threads_for(log_p.numel()):
                outcome = minimise(
                    problem,
                    execution,
                    INNER_METHODS[name],
                    _stopping(log_p.dtype, max_inner, inner_iterations),
                    max_outer=_count("max_outer", max_outer),
                    tolerance=checked_positive("tolerance", tolerance, zero_allowed=True),
                    log_v=_potentials_of(start, problem.marginals.b, adapter),
                )
        if tolerance > 0 and not bool(outcome.converged.all()):
            _warn(outcome)
        return _as_plan(outcome, problem, prior, share, name, adapter, reduce)


def _inner_method(method: str) -> str:
    # Newton at every size: how it solves for its step depends on the size.
    name = read_choice("method", method, ("auto", *INNER_METHODS))
    return "newton" if name == "auto" else name


def _stopping(dtype: torch.dtype, limit: int, fixed: int | None) -> Stopping:
    return Stopping(
        tolerance=marginal_tolerance(dtype),
        limit=_count("max_inner", limit),
        fixed=None if fixed is None else _count("inner_iterations", fixed),
    )


def _count(name: str, value: int) -> int:
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
    return int(value)


def _potentials_of(start: Plan | None, b: Tensor, adapter: ArrayAdapter) -> Tensor | None:
    if start is None:
        return None
    if not isinstance(start, Plan):
        raise ValueError(f"start must be a Plan that csot.solve returned, got {start!r}")
    log_v = adapter.batch_of("start", start.log_v, axes=1)
    if log_v.shape != b.shape:
        raise ValueError(
            f"start has potentials of shape {tuple(log_v.shape)} but this problem needs "
            f"{tuple(b.shape)}: a plan of the same classes and batch is needed"
        )
    return log_v.to(b.dtype)


def _warn(outcome: Outcome) -> None:
    open_ones = int((~outcome.converged).sum())
    which = (
        f"{open_ones} of {len(outcome.converged)} problems" if len(outcome.converged) > 1 else ""
    )
    warnings.warn(
        f"csot.solve: {which + ' ' if which else ''}not converged after "
        f"{outcome.outer_iterations} outer and {outcome.inner_iterations} inner iterations "
        f"(gap {float(outcome.gap.max()):.2g}); the plan is feasible but may not be optimal. "
        "Raise max_outer or max_inner, or epsilon",
        ConvergenceWarning,
        stacklevel=3,
    )


def _as_plan(
    outcome: Outcome,
    problem: Problem,
    prior: Tensor,
    budget: float,
    method: str,
    adapter: ArrayAdapter,
    reduce: Reduce,
) -> Plan:
    dtype = outcome.plan.dtype
    trace = outcome.objectives if adapter.batched else outcome.objectives[:, 0]
    return Plan(
        coupling=adapter.out(outcome.plan.mT.clone(memory_format=torch.contiguous_format)),
        labels=adapter.out(outcome.labels.clone()),
        row_weights=adapter.out(problem.marginals.a.to(dtype, copy=True)),
        class_prior=adapter.out(prior.to(dtype, copy=True)),
        budget=budget,
        log_u=adapter.out(outcome.log_u.to(dtype, copy=True)),
        log_v=adapter.out(outcome.log_v.to(dtype, copy=True)),
        objective_trace=adapter.out(trace.clone(), has_batch=False),
        gap=adapter.number(outcome.gap),
        marginal_error=adapter.number(outcome.marginal_error),
        converged=adapter.number(outcome.converged),
        outer_iterations=outcome.outer_iterations,
        inner_iterations=outcome.inner_iterations,
        method=method,
        reduce=reduce,
    )
