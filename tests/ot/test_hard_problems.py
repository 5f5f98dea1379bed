"""Problems at the edge: whatever happens, the plan is finite, feasible and honest about itself."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import csot
from helpers import FEASIBLE, Floats, make_instance, violation

METHODS = ["auto", "newton", "scaling", "dykstra"]
CASE = make_instance(40, 4, seed=1)
TRUTH = np.random.default_rng(0).integers(0, 4, 40)


def _plain(n: int, c: int, **changed: Any) -> dict[str, Any]:
    case = make_instance(n, c, seed=1)
    given = {"pred_probs": case.pred_probs, "features": case.features, "labels": case.labels}
    return given | changed


def _without_class(probs: Floats, k: int) -> Floats:
    rest = probs.copy()
    rest[:, k] = 0.0
    return rest / rest.sum(1, keepdims=True)


def _confident(logit: float) -> dict[str, Any]:
    log_probs = np.full((40, 4), logit)
    log_probs[np.arange(40), TRUTH] = 0.0
    return {"log_probs": log_probs, "features": CASE.features, "labels": CASE.labels}


PROBLEMS: dict[str, dict[str, Any]] = {
    "one-hot predictions": _plain(40, 4, pred_probs=np.eye(4)[TRUTH]),
    "a class that is never predicted": _plain(40, 4, pred_probs=_without_class(CASE.pred_probs, 2)),
    "one-hot, one class missing": _plain(40, 4, pred_probs=np.eye(4)[np.minimum(TRUTH, 2)]),
    "all rows predict one class": _plain(40, 4, pred_probs=np.eye(4)[np.zeros(40, dtype=int)]),
    "log-probabilities of -1e4": _confident(-1e4),
    "log-probabilities of -inf": _confident(-np.inf),
    "a share of zero": _plain(40, 4, class_prior=[0.5, 0.0, 0.25, 0.25]),
    "one-hot, a share of zero": _plain(
        40, 4, pred_probs=np.eye(4)[TRUTH], class_prior=[0.5, 0.0, 0.25, 0.25]
    ),
    "all to one class": _plain(40, 4, class_prior=[0, 0, 1, 0]),
    "a share of a millionth": _plain(40, 4, class_prior=[1e-6, 1e-3, 0.5, 0.498999]),
    "a row as heavy as a million": _plain(40, 4, row_weights=[1e6, *[1.0] * 39]),
    "one row": _plain(1, 3),
    "two rows": _plain(2, 3),
    "fewer rows than classes": _plain(5, 12),
    "many classes": _plain(60, 300),
    "identical rows": _plain(
        40,
        4,
        pred_probs=np.tile([0.5, 0.3, 0.1, 0.1], (40, 1)),
        features=np.tile(CASE.features[:1], (40, 1)),
    ),
    "some feature vectors zero": _plain(
        40, 4, features=np.where(np.arange(40)[:, None] % 3 == 0, 0.0, CASE.features)
    ),
    "all feature vectors zero": _plain(40, 4, features=np.zeros((40, 8))),
    "neighbours that are twins": _plain(
        40, 4, features=np.tile(CASE.features[:1], (40, 1)), similarity="knn"
    ),
}
SMALL = [name for name in PROBLEMS if name != "many classes"]


def solved(problem: dict[str, Any], dtype: str = "float64", **options: Any) -> csot.Plan:
    """The plan, checked for everything that holds whether it converged or not."""
    inputs = {
        name: np.asarray(value, dtype) if name in ("pred_probs", "log_probs") else value
        for name, value in problem.items()
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan = csot.solve(**inputs, **options)
    assert [warning.category for warning in caught] == [csot.ConvergenceWarning] * (
        not plan.converged
    )
    assert plan.coupling.dtype == dtype
    for value in (plan.coupling, plan.log_u, plan.log_v, plan.objective_trace, plan.gap):
        assert np.isfinite(value).all()
    assert plan.gap >= 0
    assert ((plan.confidence >= 0) & (plan.confidence <= 1)).all()
    n, c = plan.coupling.shape
    assert ((plan.labels >= 0) & (plan.labels < c)).all()
    assert plan.selected.sum() == np.floor(plan.budget * n + 1e-9)
    assert_feasible(plan)
    return plan


def assert_feasible(plan: csot.Plan) -> None:
    capacities = plan.row_weights.astype(np.float64)
    totals = plan.budget * plan.class_prior.astype(np.float64)
    assert violation(plan.coupling, capacities, totals) < FEASIBLE
    assert (plan.coupling[:, totals == 0] == 0).all()
    assert plan.marginal_error < FEASIBLE
    if plan.budget == 1:
        rows = plan.coupling.astype(np.float64).sum(1)
        assert np.abs(rows / capacities - 1).max() < FEASIBLE


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("epsilon", [1e-3, 1e-2, 1.0])
@pytest.mark.parametrize("problem", SMALL)
def test_plans_are_finite_and_feasible(
    problem: str, epsilon: float, dtype: str, methods: tuple[str, ...]
) -> None:
    for budget in (0.01, 1.0):
        for method in methods:
            solved(
                PROBLEMS[problem],
                dtype,
                epsilon=epsilon,
                budget=budget,
                method=method,
                max_outer=3,
                max_inner=40 if method == "dykstra" else 100,
            )


@pytest.mark.parametrize("epsilon", [1e-2, 1.0])
@pytest.mark.parametrize("budget", [0.01, 1.0])
def test_many_classes(epsilon: float, budget: float) -> None:
    for dtype in ("float64", "float32"):
        plan = solved(PROBLEMS["many classes"], dtype, epsilon=epsilon, budget=budget)
        assert plan.converged


@pytest.mark.parametrize(
    "problem",
    [
        "a class that is never predicted",
        "all rows predict one class",
        "a share of zero",
        "all to one class",
        "a share of a millionth",
        "one row",
        "two rows",
        "fewer rows than classes",
        "identical rows",
        "all feature vectors zero",
    ],
)
def test_newton_converges_at_the_default_epsilon(problem: str) -> None:
    for budget in (0.01, 0.5, 1.0):
        for dtype in ("float64", "float32"):
            plan = solved(PROBLEMS[problem], dtype, budget=budget, max_outer=50)
            assert plan.converged, (budget, dtype)


def test_a_class_that_nobody_predicts_still_gets_its_share() -> None:
    plan = solved(PROBLEMS["a class that is never predicted"], budget=0.6)
    assert plan.coupling[:, 2].sum() == pytest.approx(0.15, rel=1e-6)


def test_identical_rows_share_alike() -> None:
    """Without labels nothing tells them apart."""
    inputs = {k: v for k, v in PROBLEMS["identical rows"].items() if k != "labels"}
    plan = solved(inputs, budget=0.5)
    assert np.abs(40 * (plan.coupling - plan.coupling[0])).max() < 1e-9
    assert np.abs(40 * plan.coupling - 0.5 / 4).max() < 1e-9


def test_one_row_takes_the_prior() -> None:
    plan = solved(PROBLEMS["one row"], budget=0.7, class_prior=[0.2, 0.3, 0.5])
    assert np.abs(plan.coupling[0] - 0.7 * np.array([0.2, 0.3, 0.5])).max() < 1e-9
    assert not plan.selected.any()


def test_zero_features_mean_no_coherence() -> None:
    with_zeros = solved(PROBLEMS["all feature vectors zero"], budget=0.5)
    without = csot.solve(CASE.pred_probs, budget=0.5)
    assert np.abs(with_zeros.coupling - without.coupling).max() * 40 < 1e-9


def test_confident_log_probs_are_as_dear_as_a_zero() -> None:
    """Below the smallest float32 all is one: a cost of about 103 nats."""
    plans = [
        solved(PROBLEMS[name], budget=0.5)
        for name in ("log-probabilities of -1e4", "log-probabilities of -inf")
    ]
    as_probs = solved(PROBLEMS["one-hot predictions"], budget=0.5)
    for plan in plans:
        assert np.abs(plan.coupling - as_probs.coupling).max() * 40 < 1e-9


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("budget", [0.9, 1.0])
@pytest.mark.parametrize("limits", [{"max_inner": 1}, {"max_outer": 1}, {"max_inner": 2}])
def test_too_few_iterations_are_confessed(
    method: str, budget: float, limits: dict[str, int]
) -> None:
    case = make_instance(50, 5, seed=2)
    with pytest.warns(csot.ConvergenceWarning, match="not converged") as caught:
        plan = csot.solve(
            case.pred_probs,
            features=case.features,
            labels=case.labels,
            class_prior=case.class_prior,
            row_weights=case.row_weights,
            coherence=20.0,
            epsilon=0.03,
            budget=budget,
            method=method,
            **limits,
        )
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert plan.converged is False
    assert_feasible(plan)


@pytest.mark.parametrize("max_outer", [2, 3, 10])
def test_what_is_called_converged_is_near_the_optimum(max_outer: int) -> None:
    case = make_instance(50, 5, seed=2)
    arguments = {"features": case.features, "labels": case.labels, "budget": 0.3}
    best = csot.solve(case.pred_probs, **arguments, max_outer=100)
    rough = solved({"pred_probs": case.pred_probs, **arguments}, max_inner=1, max_outer=max_outer)
    assert rough.objective == pytest.approx(best.objective, rel=1e-4) or not rough.converged


def test_a_batch_confesses_once_and_says_how_many() -> None:
    cases = [make_instance(50, 5, seed) for seed in range(3)]
    with pytest.warns(csot.ConvergenceWarning, match="3 of 3 problems not converged") as caught:
        plan = csot.solve(
            np.stack([case.pred_probs for case in cases]), epsilon=0.01, budget=1.0, max_inner=1
        )
    assert len(caught) == 1
    assert plan.converged.tolist() == [False] * 3
    assert "0 of 3 converged" in repr(plan)


def test_exactly_so_many_steps_are_no_reason_to_warn() -> None:
    """With ``tolerance=0`` the user asked for a count, and got it."""
    plan = csot.solve(CASE.pred_probs, budget=0.5, inner_iterations=1, tolerance=0)
    # The iterate itself: class totals are exact, rows are as far off as the plan says.
    np.testing.assert_allclose(plan.coupling.sum(0), 0.5 / CASE.pred_probs.shape[1], rtol=1e-9)
    excess = (plan.coupling.sum(1) / plan.row_weights - 1).max()
    assert plan.marginal_error == pytest.approx(max(excess, 0.0), abs=1e-9)
    assert not plan.converged


@st.composite
def rough_problems(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rows of whole-number odds with many zeros, empty classes, missing labels, zero features."""
    n, c = draw(st.integers(1, 12)), draw(st.integers(2, 6))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    odds = rng.integers(0, 3, (n, c)) * rng.integers(0, 2, (1, c))
    odds[odds.sum(1) == 0, rng.integers(c)] = 1
    shares = rng.integers(0, 4, c).astype(float)
    shares[rng.integers(c)] += 1
    inputs = {
        "pred_probs": odds / odds.sum(1, keepdims=True),
        "features": rng.integers(-1, 2, (n, 2)).astype(float),
        "labels": rng.integers(-1, c, n),
        "class_prior": shares / shares.sum(),
        "row_weights": rng.integers(1, 5, n).astype(float),
    }
    options = {
        "budget": draw(st.sampled_from([0.01, 0.37, 0.99, 1.0])),
        "epsilon": draw(st.sampled_from([1e-3, 1e-2, 0.1, 1.0])),
        "coherence": draw(st.sampled_from([0.0, 1.0, 30.0])),
        "similarity": draw(st.sampled_from(["cosine", "knn"])),
        "method": draw(st.sampled_from(METHODS)),
        "dtype": draw(st.sampled_from(["float64", "float32"])),
    }
    return inputs, options


@settings(max_examples=150, deadline=None)
@given(problem=rough_problems())
def test_rough_problems(problem: tuple[dict[str, Any], dict[str, Any]]) -> None:
    inputs, options = problem
    solved(inputs, **options, max_inner=60, max_outer=3)


def test_one_hot_predictions_at_budget_one_find_their_way() -> None:
    """Rows must change class at a cost of a thousand epsilon: potentials have far to go."""
    case = make_instance(40, 4, 1)
    probs = np.eye(4)[np.random.default_rng(0).integers(0, 4, 40)]
    plans = [
        csot.solve(probs, features=case.features, labels=case.labels, max_outer=100, method=method)
        for method in ("newton", "auto")
    ]
    for plan in plans:
        assert plan.converged
        assert_feasible(plan)
        assert plan.objective == pytest.approx(7.3128, abs=2e-4)


def test_huge_features_have_the_same_neighbours() -> None:
    case = make_instance(40, 4, 1)
    plans = [
        csot.solve(case.pred_probs, features=scale * case.features, budget=0.5, similarity="knn")
        for scale in (1.0, 1e180)
    ]
    assert plans[0].objective == pytest.approx(plans[1].objective, abs=1e-9)
