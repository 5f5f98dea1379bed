"""The oracles against each other, against SciPy's general solver and against POT."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from .transport import (
    NO_LABEL,
    FloatArray,
    IntArray,
    allocate,
    coherence_gradient,
    coherence_value,
    cosine_similarity,
    cost_matrix,
    csot,
    curriculum_ot_by_general_solver,
    dykstra,
    objective,
    one_hot,
    scaling,
    sinkhorn,
)


@dataclass(frozen=True)
class Problem:
    """A random problem with uneven row weights and class prior."""

    P: FloatArray
    features: FloatArray
    labels: IntArray
    class_prior: FloatArray
    row_weights: FloatArray

    @property
    def cost(self) -> FloatArray:
        return cost_matrix(self.P)


def random_problem(seed: int, samples: int, classes: int, offset: float = 0.0) -> Problem:
    """Softmax predictions, features around ``offset`` (more similar as it grows), any labels."""
    rng = np.random.default_rng(seed)
    scores = np.exp(rng.normal(size=(samples, classes)))
    return Problem(
        P=scores / scores.sum(axis=1, keepdims=True),
        features=rng.normal(size=(samples, 5)) + offset,
        labels=rng.integers(NO_LABEL, classes, size=samples),
        class_prior=rng.dirichlet(np.full(classes, 5.0)),
        row_weights=rng.dirichlet(np.full(samples, 5.0)),
    )


def assert_feasible(Q: FloatArray, a: FloatArray, b: FloatArray, tolerance: float) -> None:
    assert np.all(Q >= 0)
    assert np.max(Q.sum(axis=1) - a) <= tolerance
    assert np.max(np.abs(Q.sum(axis=0) - b)) <= tolerance


# Entropic transport ------------------------------------------------------------------------------


@pytest.mark.parametrize("iterations", [1, 2, 7, 200])
@pytest.mark.parametrize("budget", [0.3, 0.8, 1.0])
def test_dykstra_and_scaling_agree_at_every_iteration(budget: float, iterations: int) -> None:
    problem = random_problem(seed=0, samples=12, classes=4)
    a, b = problem.row_weights, budget * problem.class_prior
    by_matrices = dykstra(problem.cost, a, b, 0.1, iterations)
    by_vectors = scaling(problem.cost, a, b, 0.1, iterations)
    np.testing.assert_allclose(by_matrices, by_vectors, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize(
    ("samples", "classes", "epsilon", "budget"),
    [(5, 3, 1.0, 0.5), (8, 3, 0.3, 0.6), (8, 3, 0.1, 0.4), (8, 3, 0.3, 1.0), (12, 4, 0.2, 0.7)],
)
def test_scaling_solves_what_the_general_solver_solves(
    samples: int, classes: int, epsilon: float, budget: float
) -> None:
    problem = random_problem(seed=1, samples=samples, classes=classes)
    a, b = problem.row_weights, budget * problem.class_prior
    general = curriculum_ot_by_general_solver(problem.cost, a, b, epsilon)
    scaled = scaling(problem.cost, a, b, epsilon, iterations=20000)
    np.testing.assert_allclose(scaled, general, rtol=0, atol=1e-8)
    assert_feasible(scaled, a, b, tolerance=1e-12)


@pytest.mark.parametrize("budget", [0.3, 0.8])
def test_scaling_satisfies_the_optimality_conditions(budget: float) -> None:
    """C + epsilon log Q = mu_k - lambda_i, lambda >= 0, and lambda = 0 where the row has slack."""
    epsilon = 0.1
    problem = random_problem(seed=2, samples=30, classes=5)
    a, b = problem.row_weights, budget * problem.class_prior
    Q = scaling(problem.cost, a, b, epsilon, iterations=20000)
    reduced = problem.cost + epsilon * np.log(Q)
    has_slack = Q.sum(axis=1) < a - 1e-9
    assert has_slack.any()
    assert not has_slack.all()
    mu = reduced[has_slack].mean(axis=0)
    multipliers = mu - reduced
    np.testing.assert_allclose(multipliers[has_slack], 0.0, atol=1e-12)
    np.testing.assert_allclose(multipliers, multipliers[:, :1] + np.zeros_like(Q), atol=1e-12)
    assert multipliers.min() >= -1e-12


def test_scaling_becomes_sinkhorn_at_full_budget() -> None:
    problem = random_problem(seed=3, samples=15, classes=4)
    a, b = problem.row_weights, problem.class_prior
    np.testing.assert_allclose(
        scaling(problem.cost, a, b, 0.2, iterations=20000),
        sinkhorn(problem.cost, a, b, 0.2, iterations=2000),
        rtol=1e-9,
        atol=1e-15,
    )


@pytest.mark.filterwarnings("ignore")
def test_sinkhorn_agrees_with_pot() -> None:
    ot = pytest.importorskip("ot")
    problem = random_problem(seed=4, samples=15, classes=4)
    a, b = problem.row_weights, problem.class_prior
    theirs = ot.sinkhorn(
        a, b, problem.cost, 0.2, method="sinkhorn_log", numItermax=2000, stopThr=1e-14
    )
    ours = sinkhorn(problem.cost, a, b, 0.2, iterations=2000)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)


def test_scaling_survives_certain_predictions_and_empty_marginals() -> None:
    P = np.eye(3)[[0, 1, 2, 0, 1, 2]]
    a = np.array([0.0, 0.2, 0.2, 0.2, 0.2, 0.2])
    b = 0.6 * np.array([0.5, 0.5, 0.0])
    Q = scaling(cost_matrix(P), a, b, epsilon=0.1, iterations=2000)
    assert np.all(np.isfinite(Q))
    np.testing.assert_array_equal(Q[:, 2], 0.0)
    np.testing.assert_array_equal(Q[0], 0.0)
    np.testing.assert_allclose(Q.sum(axis=0), b, atol=1e-15)


# Coherence ---------------------------------------------------------------------------------------


def test_similarity_has_a_zero_diagonal_and_ignores_zero_features() -> None:
    features = np.array([[2.0, 0.0], [0.0, 0.0], [-3.0, 0.0], [1.0, 1.0]])
    half = np.sqrt(0.5)
    expected = [[0, 0, -1, half], [0, 0, 0, 0], [-1, 0, 0, -half], [half, 0, -half, 0]]
    np.testing.assert_allclose(cosine_similarity(features), expected, atol=1e-15)


def test_coherence_is_the_double_sum_of_the_paper() -> None:
    problem = random_problem(seed=5, samples=5, classes=3)
    S, W = cosine_similarity(problem.features), problem.P
    Q = np.outer(problem.row_weights, problem.class_prior)
    total = 0.0
    for i in range(5):
        for j in range(5):
            for k in range(3):
                total -= S[i, j] * W[i, k] * W[j, k] * Q[i, k] * Q[j, k]
    assert coherence_value(S, W, Q) == pytest.approx(total, rel=1e-12)


def test_coherence_gradient_agrees_with_finite_differences() -> None:
    problem = random_problem(seed=6, samples=6, classes=3)
    S = np.random.default_rng(6).normal(size=(6, 6))  # the gradient holds for any square S
    Q = np.random.default_rng(7).uniform(size=(6, 3))
    width = 1e-4
    numeric = np.zeros_like(Q)
    for index in np.ndindex(*Q.shape):
        bump = np.zeros_like(Q)
        bump[index] = width
        rise = coherence_value(S, problem.P, Q + bump) - coherence_value(S, problem.P, Q - bump)
        numeric[index] = rise / (2 * width)
    np.testing.assert_allclose(coherence_gradient(S, problem.P, Q), numeric, atol=1e-10)


def test_objective_counts_zero_times_log_zero_as_zero() -> None:
    problem = random_problem(seed=8, samples=4, classes=3)
    S, L = cosine_similarity(problem.features), one_hot(problem.labels, 3)
    empty = np.zeros((4, 3))
    assert objective(empty, problem.cost, 0.1, 1.0, 1.0, S, problem.P, L) == 0.0


def test_missing_labels_make_rows_of_zeros() -> None:
    np.testing.assert_array_equal(
        one_hot(np.array([1, NO_LABEL, 0]), 3), [[0, 1, 0], [0, 0, 0], [1, 0, 0]]
    )


# Curriculum and structure-aware transport --------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "kappa_prediction", "kappa_label", "offset"),
    [(0.5, 1.0, 1.0, 0.0), (0.5, 0.5, 2.0, 3.0), (0.8, 3.0, 3.0, 3.0), (1.0, 1.0, 1.0, 0.0)],
)
def test_csot_descends_to_a_feasible_stationary_plan(
    budget: float, kappa_prediction: float, kappa_label: float, offset: float
) -> None:
    problem = random_problem(seed=9, samples=12, classes=3, offset=offset)
    found = csot(
        problem.P,
        problem.features,
        problem.labels,
        budget,
        problem.class_prior,
        problem.row_weights,
        epsilon=0.1,
        kappa_prediction=kappa_prediction,
        kappa_label=kappa_label,
        inner=6000,
    )
    assert np.all(np.diff(found.objective_history) <= 1e-14)
    assert found.settled
    assert abs(found.gap) <= 1e-14
    assert_feasible(found.Q, problem.row_weights, budget * problem.class_prior, tolerance=1e-10)


def test_csot_without_coherence_is_curriculum_transport() -> None:
    problem = random_problem(seed=10, samples=16, classes=4)
    a, b = problem.row_weights, 0.6 * problem.class_prior
    found = csot(
        problem.P, problem.features, problem.labels, 0.6, problem.class_prior, a, 0.1, 0.0, 0.0
    )
    assert found.settled
    expected = scaling(problem.cost, a, b, 0.1, iterations=20000)
    np.testing.assert_allclose(found.Q, expected, rtol=1e-12, atol=1e-16)


# Allocation --------------------------------------------------------------------------------------


def test_allocation_of_a_plan_read_by_hand() -> None:
    Q = np.array([[0.10, 0.05], [0.00, 0.20], [0.20, 0.00], [0.05, 0.10], [0.05, 0.05]])
    labels = np.array([0, 0, 0, NO_LABEL, 0])
    a, prior = np.full(5, 0.2), np.full(2, 0.5)

    paper = allocate(Q, labels, 0.7, prior, a, "paper")
    np.testing.assert_array_equal(paper.pseudo_labels, [0, 1, 0, 1, 0])
    np.testing.assert_allclose(paper.confidence, [0.5, 1.0, 1.0, 0.5, 0.25])
    np.testing.assert_array_equal(paper.selected, [1, 1, 1, 0, 0])  # row 0 precedes its equal, 3
    np.testing.assert_array_equal(paper.clean, [1, 0, 1, 0, 0])
    np.testing.assert_array_equal(paper.corrupted, [0, 1, 0, 1, 0])
    np.testing.assert_allclose(paper.weights, np.array([0.1, 0.2, 0.2, 0.1, 0.05]) / 0.35)

    published = allocate(Q, labels, 0.7, prior, a, "published")
    np.testing.assert_array_equal(published.clean, paper.clean)
    np.testing.assert_array_equal(published.corrupted, [0, 1, 0, 1, 1])
    np.testing.assert_allclose(published.weights, [0.5, 1.0, 1.0, 0.5, 0.25])
