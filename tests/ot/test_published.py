"""Fixed iteration counts, and the published code's algorithm that they reproduce."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

import csot
from helpers import Floats, Integers, make_instance, plan_error
from reference import transport as reference

PUBLISHED: dict[str, Any] = {
    "coherence_on": "log_probs",
    "row_constraint": "inequality",
    "method": "scaling",
    "inner_iterations": 100,
}
KAPPA = (0.3, 0.2)


def network_outputs(n: int, c: int, margin: float) -> tuple[Floats, Floats, Integers]:
    """Predictions, features and labels (half of them random) of a network in training."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, c, n)
    logits = 2 * rng.normal(size=(n, c))
    logits[np.arange(n), truth] += margin * rng.random(n)
    probs = np.exp(logits)
    features = rng.normal(size=(c, 32))[truth] + 0.7 * rng.normal(size=(n, 32))
    labels = np.where(rng.random(n) < 0.5, rng.integers(0, c, n), truth)
    return probs / probs.sum(1, keepdims=True), features, labels


def solve_quietly(probs: Floats, **options: Any) -> csot.Plan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", csot.ConvergenceWarning)
        return csot.solve(probs, **options)


@pytest.mark.parametrize("margin", [6.0, 15.0], ids=["unsure", "sure"])
@pytest.mark.parametrize("budget", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("n_classes", [10, 100])
def test_pseudo_labels_are_those_of_the_published_code(
    n_classes: int, budget: float, margin: float, loops: str
) -> None:
    if loops == "compiled":
        pytest.skip("fixed counts never run compiled code")
    probs, features, labels = network_outputs(512, n_classes, margin)
    expected = reference.published(probs, features, labels, budget)
    plan = solve_quietly(probs, features=features, labels=labels, budget=budget, **PUBLISHED)
    assert (plan.labels == expected.argmax(1)).mean() > 0.99


@pytest.mark.parametrize("budget", [0.5, 1.0])
def test_every_outer_step_starts_cold(budget: float) -> None:
    """The plan of two outer steps is one run of Algorithm 1 at the plan of the first."""
    case, kappa = make_instance(60, 5, seed=1), 10.0
    a, b = np.full(60, 1 / 60), np.full(5, budget / 5)
    cost = reference.cost_matrix(case.pred_probs)
    first = reference.scaling(cost, a, b, 0.1, iterations=15)
    S, L = reference.cosine_similarity(case.features), reference.one_hot(case.labels, 5)
    gradient = cost + kappa * sum(
        reference.coherence_gradient(S, weights, first) for weights in (case.pred_probs, L)
    )
    second = reference.scaling(gradient, a, b, 0.1, iterations=15)
    plan = csot.solve(
        case.pred_probs,
        features=case.features,
        labels=case.labels,
        budget=budget,
        coherence=kappa,
        row_constraint="inequality",
        method="scaling",
        inner_iterations=15,
        max_outer=2,
        tolerance=0,
    )
    span = second - first
    share = float(((plan.coupling - first) * span).sum() / (span * span).sum())
    assert plan_error(plan.coupling, first + share * span, a) < 1e-9
    assert share > 0.1


@pytest.mark.parametrize("coherence", [1.0, 30.0])
@pytest.mark.parametrize("budget", [0.4, 1.0])
@pytest.mark.parametrize("count", [1, 3, 20])
def test_fixed_counts_never_lead_uphill(count: int, budget: float, coherence: float) -> None:
    for seed in range(4):
        case = make_instance(50, 6, seed, sharpness=4.0)
        plan = csot.solve(
            case.pred_probs,
            features=case.features,
            labels=case.labels,
            budget=budget,
            coherence=coherence,
            row_constraint="inequality",
            method="scaling",
            inner_iterations=count,
            tolerance=0,
        )
        assert len(plan.objective_trace) == 10
        assert np.diff(plan.objective_trace).max() <= 1e-12


@pytest.mark.parametrize("method", ["newton", "scaling"])
def test_the_inequality_has_the_same_optimum(method: str) -> None:
    case = make_instance(40, 4, seed=5)
    options: dict[str, Any] = {"features": case.features, "labels": case.labels, "max_outer": 50}
    expected = csot.solve(case.pred_probs, **options)
    plan = csot.solve(
        case.pred_probs, row_constraint="inequality", method=method, max_inner=20_000, **options
    )
    assert plan.converged
    assert plan_error(plan.coupling, expected.coupling, plan.row_weights) < 1e-6


@cache
def oracle_in_units_of_classes(budget: float) -> reference.ReferenceSolution:
    """What is compiled and what is not are compared with the same solution."""
    case, unit = make_instance(36, 4, seed=3), 4 / budget
    return reference.csot(
        case.pred_probs,
        case.features,
        case.labels,
        budget,
        case.class_prior,
        case.row_weights,
        0.1,
        unit * KAPPA[0],
        unit * KAPPA[1],
    )


@pytest.mark.parametrize("budget", [0.4, 1.0])
def test_coherence_in_units_of_classes(budget: float) -> None:
    case = make_instance(36, 4, seed=3)
    expected = oracle_in_units_of_classes(budget)
    plan = csot.solve(
        case.pred_probs,
        features=case.features,
        labels=case.labels,
        budget=budget,
        class_prior=case.class_prior,
        row_weights=case.row_weights,
        coherence=KAPPA,
        coherence_scale="classes",
        max_outer=100,
    )
    assert plan_error(plan.coupling, expected.Q, case.row_weights) < 1e-6


@pytest.mark.parametrize(("n_classes", "budget"), [(3, 1.0), (12, 0.5)])
def test_the_gradient_of_coherence_is_at_most_twice_kappa(n_classes: int, budget: float) -> None:
    """In units of classes, and it comes close where all samples of a class are alike."""
    truth = np.arange(240) % n_classes
    features = np.eye(n_classes)[truth]
    kappa = 0.7
    plan = csot.solve(
        np.where(features > 0, 0.99, 0.01 / (n_classes - 1)),
        features=features,
        labels=truth,
        budget=budget,
        coherence=(0, kappa),
        coherence_scale="classes",
    )
    S, L = reference.cosine_similarity(features), features
    gradient = kappa * n_classes / budget * reference.coherence_gradient(S, L, plan.coupling)
    assert 1.8 * kappa < np.abs(gradient).max() <= 2 * kappa
