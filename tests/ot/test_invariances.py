"""What must not matter does not: order, batching, dtype, container, scale, shards."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import csot
from helpers import FEASIBLE, PLAN_TOLERANCE, make_instance, plan_error, violation

SIZES = st.tuples(st.integers(4, 40), st.integers(2, 6))
BUDGETS = st.one_of(st.floats(0.05, 0.97), st.just(1.0))
SEEDS = st.integers(0, 10_000)


@settings(max_examples=40, deadline=None)
@given(size=SIZES, budget=BUDGETS, seed=SEEDS)
def test_plans_are_feasible_and_permute_with_rows_and_classes(
    size: tuple[int, int], budget: float, seed: int
) -> None:
    n, c = size
    case = make_instance(n, c, seed)
    arguments = {"budget": budget, "max_outer": 50}
    plan = csot.solve(
        case.pred_probs,
        features=case.features,
        labels=case.labels,
        class_prior=case.class_prior,
        row_weights=case.row_weights,
        **arguments,
    )
    assert violation(plan.coupling, case.row_weights, budget * case.class_prior) < FEASIBLE
    assert ((plan.confidence >= 0) & (plan.confidence <= 1)).all()
    assert plan.selected.sum() == int(np.floor(budget * n + 1e-9))
    rng = np.random.default_rng(seed)
    rows, classes = rng.permutation(n), rng.permutation(c)
    labels = case.labels[rows]
    renamed = np.where(labels < 0, -1, np.argsort(classes)[labels])
    permuted = csot.solve(
        case.pred_probs[rows][:, classes],
        features=case.features[rows],
        labels=renamed,
        class_prior=case.class_prior[classes],
        row_weights=case.row_weights[rows],
        **arguments,
    )
    expected = plan.coupling[rows][:, classes]
    assert plan_error(permuted.coupling, expected, case.row_weights[rows]) < 1e-5


@pytest.mark.parametrize(
    ("method", "budget"),
    [("newton", 0.4), ("newton", 1.0), ("scaling", 0.4), ("scaling", 0.8), ("dykstra", 0.4)],
)
def test_a_batch_equals_its_problems_one_by_one(method: str, budget: float) -> None:
    cases = [make_instance(24, 3, seed, sharpness=0.6 + seed / 8) for seed in range(4)]
    batch = csot.solve(
        np.stack([case.pred_probs for case in cases]),
        features=np.stack([case.features for case in cases]),
        labels=np.stack([case.labels for case in cases]),
        budget=budget,
        method=method,
        max_inner=20_000,
        max_outer=50,
    )
    assert batch.converged.all()
    for i, case in enumerate(cases):
        single = csot.solve(
            case.pred_probs,
            features=case.features,
            labels=case.labels,
            budget=budget,
            method=method,
            max_inner=20_000,
            max_outer=50,
        )
        assert plan_error(batch.coupling[i], single.coupling, np.full(24, 1 / 24)) < 1e-5
        assert (batch.labels[i] == single.labels).all()
        assert (batch.selected[i] == single.selected).all()
        assert batch.objective[i] == pytest.approx(single.objective, abs=1e-10)


def test_large_batch_of_small_problems() -> None:
    generator = torch.Generator().manual_seed(0)
    probs = torch.randn(50, 30, 3, generator=generator).softmax(-1)
    plan = csot.solve(probs, budget=0.5)
    assert plan.coupling.shape == (50, 30, 3)
    assert plan.converged.all()
    assert torch.allclose(plan.coupling.sum((1, 2)), torch.tensor(0.5), atol=1e-6)


@pytest.mark.parametrize("budget", [0.5, 1.0])
def test_containers_and_dtypes(budget: float) -> None:
    case = make_instance(50, 4, seed=7)
    double = csot.solve(case.pred_probs, features=case.features, labels=case.labels, budget=budget)
    assert isinstance(double.coupling, np.ndarray)
    assert double.coupling.dtype == np.float64
    for dtype in (torch.float32, torch.float64):
        plan = csot.solve(
            torch.from_numpy(case.pred_probs).to(dtype),
            features=torch.from_numpy(case.features),
            labels=torch.from_numpy(case.labels),
            budget=budget,
        )
        assert plan.coupling.dtype == plan.confidence.dtype == dtype
        assert isinstance(plan.labels, torch.Tensor)
        assert plan.selected.dtype == torch.bool
        tolerance = PLAN_TOLERANCE[str(dtype).removeprefix("torch.")]
        assert plan_error(plan.coupling.numpy(), double.coupling, double.row_weights) < tolerance
    half = csot.solve(torch.from_numpy(case.pred_probs).half(), budget=budget)
    assert half.coupling.dtype == torch.float32


def test_log_probs_and_probabilities_say_the_same() -> None:
    case = make_instance(40, 5, seed=8)
    by_probs = csot.solve(case.pred_probs, features=case.features, labels=case.labels, budget=0.6)
    by_logs = csot.solve(
        log_probs=np.log(case.pred_probs), features=case.features, labels=case.labels, budget=0.6
    )
    assert plan_error(by_logs.coupling, by_probs.coupling, by_probs.row_weights) < 1e-7


def test_inputs_are_not_changed_and_carry_no_gradient() -> None:
    case = make_instance(20, 3, seed=0)
    probs = torch.from_numpy(case.pred_probs).requires_grad_()
    features = torch.from_numpy(case.features)
    before = probs.detach().clone(), features.clone()
    plan = csot.solve(probs, features=features, labels=case.labels, budget=0.5)
    assert not plan.coupling.requires_grad
    assert torch.equal(probs.detach(), before[0])
    assert torch.equal(features, before[1])


def test_scale_of_features_does_not_matter() -> None:
    case = make_instance(40, 4, seed=9)
    plans = [
        csot.solve(case.pred_probs, features=scale * case.features, labels=case.labels, budget=0.5)
        for scale in (1.0, 1e-3, 1e3, 1e180)
    ]
    for plan in plans[1:]:
        assert plan_error(plan.coupling, plans[0].coupling, plan.row_weights) < 1e-6


def test_many_classes_take_the_iterative_and_sparse_path() -> None:
    """Beyond CHOLESKY_CLASSES: conjugate gradients, a sparse kernel, class centroids by sums."""
    case = make_instance(300, 260, seed=1, sharpness=2.0)
    for budget in (0.4, 1.0):
        arguments = {"features": case.features, "labels": case.labels, "budget": budget}
        plan = csot.solve(case.pred_probs, **arguments)
        slow = csot.solve(case.pred_probs, **arguments, method="scaling", max_inner=100_000)
        assert plan.converged
        assert violation(plan.coupling, plan.row_weights, budget * plan.class_prior) < FEASIBLE
        assert plan.objective == pytest.approx(slow.objective, rel=1e-5)
        assert plan_error(plan.coupling, slow.coupling, plan.row_weights) < 1e-3


def test_a_warm_start_gives_the_same_plan() -> None:
    case = make_instance(200, 5, seed=3)
    with_coherence = {"features": case.features, "labels": case.labels}
    for arguments in ({}, with_coherence):
        before = csot.solve(case.pred_probs, budget=0.51, **arguments)
        cold = csot.solve(case.pred_probs, budget=0.5, **arguments)
        warm = csot.solve(case.pred_probs, budget=0.5, start=before, **arguments)
        assert plan_error(warm.coupling, cold.coupling, cold.row_weights) < 1e-6
    # Without coherence the potentials are the solution, and one evaluation shows it.
    cold = csot.solve(case.pred_probs, budget=0.5)
    assert csot.solve(case.pred_probs, budget=0.5, start=cold).inner_iterations == 1


def test_autocast_does_not_round_a_plan() -> None:
    case = make_instance(300, 4, seed=0)
    arguments = {
        "features": torch.from_numpy(case.features).float(),
        "labels": torch.from_numpy(case.labels),
        "budget": 0.5,
    }
    probs = torch.from_numpy(case.pred_probs).float()
    expected = csot.solve(probs, **arguments)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        plan = csot.solve(probs, **arguments)
    assert torch.equal(plan.coupling, expected.coupling)
