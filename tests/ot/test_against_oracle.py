"""The solver against slow float64 oracles that were written from the paper's equations."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import csot
from helpers import FEASIBLE, PLAN_TOLERANCE, Instance, make_instance, plan_error, violation
from reference import transport as reference

# budget, coherence, epsilon: every named problem of the paper, and harder relatives.
PROBLEMS = {
    "classical OT": (1.0, (0.0, 0.0), 0.1),
    "structure-aware OT": (1.0, (1.0, 1.0), 0.1),
    "curriculum OT": (0.5, (0.0, 0.0), 0.1),
    "CSOT": (0.5, (1.0, 1.0), 0.1),
    "CSOT at a small budget": (0.15, (1.0, 1.0), 0.1),
    "CSOT without Omega^P": (0.7, (0.0, 1.0), 0.1),
    "CSOT without Omega^L": (0.7, (1.0, 0.0), 0.1),
    "CSOT, sharper": (0.4, (1.0, 1.0), 0.03),
    "CSOT, strong coherence": (0.6, (4.0, 2.0), 0.1),
}


@cache
def oracle(problem: str) -> tuple[Instance, reference.ReferenceSolution]:
    """The inputs and the solution; what is compiled and what is not are compared with the same."""
    budget, coherence, epsilon = PROBLEMS[problem]
    case = make_instance(36, 4, seed=3)
    solution = reference.csot(
        case.pred_probs,
        case.features,
        case.labels,
        budget,
        case.class_prior,
        case.row_weights,
        epsilon,
        *coherence,
    )
    return case, solution


@pytest.mark.parametrize("problem", PROBLEMS)
def test_all_inner_methods_find_the_oracle_plan(problem: str, methods: tuple[str, ...]) -> None:
    budget, coherence, epsilon = PROBLEMS[problem]
    case, expected = oracle(problem)
    for dtype in ("float64", "float32"):
        for method in methods:
            plan = csot.solve(
                case.pred_probs.astype(dtype),
                features=case.features.astype(dtype),
                labels=case.labels,
                budget=budget,
                class_prior=case.class_prior,
                row_weights=case.row_weights,
                epsilon=epsilon,
                coherence=coherence,
                method=method,
                max_inner=20_000,
                max_outer=50,
            )
            assert plan.converged
            assert plan.coupling.dtype == dtype
            assert plan_error(plan.coupling, expected.Q, case.row_weights) < PLAN_TOLERANCE[dtype]
            totals = budget * case.class_prior
            assert violation(plan.coupling, case.row_weights, totals) < FEASIBLE
            assert plan.objective == pytest.approx(
                expected.objective_history[-1], abs=1e-6 if dtype == "float64" else 1e-5
            )


@pytest.mark.parametrize("budget", [0.3, 0.8])
def test_curriculum_transport_against_a_general_convex_solver(budget: float) -> None:
    case = make_instance(8, 3, seed=6)
    totals = budget * case.class_prior
    expected = reference.curriculum_ot_by_general_solver(
        -np.log(case.pred_probs), case.row_weights, totals, 0.1
    )
    plan = csot.solve(
        case.pred_probs,
        budget=budget,
        class_prior=case.class_prior,
        row_weights=case.row_weights,
    )
    assert plan_error(plan.coupling, expected, case.row_weights) < 1e-6


def test_fixed_counts_reproduce_algorithm_1() -> None:
    """Sixty steps of scaling: the iterate itself is the paper's, not only its limit."""
    case = make_instance(30, 5, seed=0)
    a, b = np.full(30, 1 / 30), np.full(5, 0.5 / 5)
    cost = -np.log(case.pred_probs)
    expected = reference.scaling(cost, a, b, 0.1, iterations=60)
    limit = reference.scaling(cost, a, b, 0.1, iterations=20_000)
    plan = csot.solve(
        case.pred_probs, budget=0.5, method="scaling", inner_iterations=60, tolerance=0
    )
    error = plan_error(plan.coupling, expected, a)
    assert error < 1e-9
    assert error < plan_error(limit, expected, a)


def test_paper_settings_run_exactly_so_many_iterations() -> None:
    case = make_instance(64, 4, seed=1)
    plan = csot.solve(
        case.pred_probs,
        features=case.features,
        labels=case.labels,
        budget=0.5,
        method="scaling",
        max_outer=10,
        inner_iterations=100,
        tolerance=0,
    )
    assert (plan.outer_iterations, plan.inner_iterations) == (10, 1000)
    best = csot.solve(case.pred_probs, features=case.features, labels=case.labels, budget=0.5)
    assert plan.objective == pytest.approx(best.objective, abs=1e-5)


@pytest.mark.parametrize("coherence", [1.0, 20.0, 300.0])
def test_objective_never_rises(coherence: float) -> None:
    """Also where coherence is so strong that the problem is far from convex."""
    case = make_instance(60, 5, seed=2)
    plan = csot.solve(
        case.pred_probs,
        features=case.features,
        labels=case.labels,
        budget=0.6,
        coherence=coherence,
        max_outer=200,
    )
    assert plan.converged
    trace = plan.objective_trace
    assert np.diff(trace).max() <= 1e-13 * np.abs(trace).max(), "but for rounding"
    similarity = reference.cosine_similarity(case.features)
    assert plan.objective == pytest.approx(
        reference.objective(
            plan.coupling,
            reference.cost_matrix(case.pred_probs),
            0.1,
            coherence,
            coherence,
            similarity,
            case.pred_probs,
            reference.one_hot(case.labels, 5),
        ),
        abs=1e-9,
    )
    assert 0 <= plan.gap <= 1e-6 * abs(plan.objective)


def test_published_variant_weighs_coherence_by_log_probabilities() -> None:
    case = make_instance(40, 4, seed=4)
    plan = csot.solve(
        case.pred_probs,
        features=case.features,
        budget=0.5,
        coherence_on="log_probs",
        max_outer=500,
    )
    cost = -np.log(case.pred_probs)
    similarity = reference.cosine_similarity(case.features)
    gradient = cost + reference.coherence_gradient(similarity, cost, plan.coupling)
    # At a stationary point the plan solves its own linearised problem.
    a, b = np.full(40, 1 / 40), np.full(4, 0.5 / 4)
    linearised = reference.scaling(gradient, a, b, 0.1, iterations=20_000)
    assert np.abs(plan.coupling - linearised).max() * 40 < 1e-4
