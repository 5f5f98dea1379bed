"""The split of the data against the equations: what is selected, clean, corrupted, relabelled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import csot
from csot.allocation import Variant
from helpers import make_instance
from reference import transport as reference

VARIANTS: list[Variant] = ["paper", "published"]
FIELDS = ("pseudo_labels", "selected", "clean", "corrupted", "weights")


def _solved(n: int, c: int, budget: float, seed: int) -> tuple[csot.Plan, Any]:
    case = make_instance(n, c, seed)
    plan = csot.solve(
        case.pred_probs,
        budget=budget,
        class_prior=case.class_prior,
        row_weights=case.row_weights,
    )
    return plan, case.labels


# A budget a hair below one converges slowly; what is allocated does not depend on it.
@pytest.mark.filterwarnings("ignore:csot.solve")
@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 25),
    c=st.integers(2, 5),
    budget=st.floats(0.05, 1.0),
    seed=st.integers(0, 10_000),
)
def test_both_variants_equal_the_reference(n: int, c: int, budget: float, seed: int) -> None:
    # At a whole number the reference's floor may fall to the one below.
    assume(budget == 1 or abs(budget * n - round(budget * n)) > 1e-6)
    plan, labels = _solved(n, c, budget, seed)
    for variant in VARIANTS:
        got = csot.allocate(plan, labels, variant=variant)
        expected = reference.allocate(
            plan.coupling, labels, budget, plan.class_prior, plan.row_weights, variant
        )
        for name in FIELDS[:-1]:
            assert (getattr(got, name) == getattr(expected, name)).all(), name
        assert np.abs(got.weights - expected.weights).max() < 1e-12
        assert got.variant == variant


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_sets_are_what_they_say(variant: Variant) -> None:
    plan, labels = _solved(80, 4, 0.6, seed=3)
    parts = csot.allocate(plan, labels, variant=variant)
    agrees = plan.labels == labels
    assert parts.selected.sum() == 48
    assert (parts.selected == plan.selected).all()
    assert (parts.clean == (parts.selected & agrees)).all()
    assert (parts.unselected == ~parts.selected).all()
    assert (parts.relabelled == (parts.selected & ~agrees)).all()
    assert (parts.clean | parts.relabelled | parts.unselected).all()
    assert not (parts.clean & parts.corrupted).any()
    neither = ~parts.clean & ~parts.corrupted
    if variant == "paper":
        assert (parts.corrupted == ~agrees).all()
        assert (neither == (parts.unselected & agrees)).all()
        assert neither.any()
    else:
        assert (parts.corrupted == ~parts.clean).all()
        assert not neither.any()
        assert (parts.weights == plan.confidence).all()
    # The example must have a member of every set for the above to mean something.
    for part in (parts.clean, parts.corrupted, parts.unselected, parts.relabelled):
        assert 0 < part.sum() < 80


def test_the_papers_weights_of_a_class_share_its_total() -> None:
    plan, labels = _solved(60, 3, 0.5, seed=1)
    weights = csot.allocate(plan, labels).weights
    for k in range(3):
        share = plan.coupling[plan.labels == k, k].sum() / (0.5 * plan.class_prior[k])
        assert weights[plan.labels == k].sum() == pytest.approx(share)


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_a_label_nothing_is_clean(variant: Variant) -> None:
    plan, labels = _solved(40, 3, 1.0, seed=2)
    parts = csot.allocate(plan, np.full_like(labels, -1), variant=variant)
    assert not parts.clean.any()
    assert parts.corrupted.all()
    assert (parts.relabelled == parts.selected).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_class_without_a_share_weighs_nothing_and_divides_by_nothing(variant: Variant) -> None:
    case = make_instance(30, 3, seed=4)
    plan = csot.solve(case.pred_probs, budget=0.3, class_prior=[0.5, 0.5, 0.0])
    weights = csot.allocate(plan, case.labels, variant=variant).weights
    assert np.isfinite(weights).all()
    assert (plan.labels != 2).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_batch_is_its_problems_and_torch_is_numpy(variant: Variant) -> None:
    cases = [make_instance(30, 3, seed) for seed in range(3)]
    probs = np.stack([case.pred_probs for case in cases])
    labels = np.stack([case.labels for case in cases])
    batch = csot.allocate(csot.solve(probs, budget=0.5), labels, variant=variant)
    tensors = csot.allocate(
        csot.solve(torch.from_numpy(probs), budget=0.5), torch.from_numpy(labels), variant=variant
    )
    for i in range(3):
        single = csot.allocate(csot.solve(probs[i], budget=0.5), labels[i], variant=variant)
        for name in (*FIELDS, "unselected", "relabelled"):
            wanted = getattr(single, name)
            assert isinstance(getattr(tensors, name), torch.Tensor)
            assert isinstance(getattr(batch, name), np.ndarray)
            assert np.allclose(getattr(batch, name)[i], wanted, atol=1e-6), name
            assert np.allclose(getattr(tensors, name)[i].numpy(), wanted, atol=1e-6), name


def test_labels_in_any_container() -> None:
    plan, labels = _solved(20, 3, 0.5, seed=0)
    expected = csot.allocate(plan, labels).clean
    for given_labels in (labels.tolist(), torch.from_numpy(labels), labels.astype(np.float64)):
        assert (csot.allocate(plan, given_labels).clean == expected).all()


@pytest.mark.parametrize(
    ("labels", "variant", "message"),
    [
        (np.zeros(5), "paper", r"^labels has shape \(5,\) but the plan allocates \(6,\)"),
        (np.zeros((6, 1)), "paper", r"^labels has shape \(6, 1\) but the plan allocates"),
        (np.full(6, 3), "paper", r"^labels contains 3, but there are 3 classes"),
        (np.full(6, -2), "paper", r"^labels contains -2, but there are 3 classes"),
        (np.full(6, 0.5), "paper", r"^labels contains 0\.5, which is not a class index"),
        (["cat"] * 6, "paper", r"^labels must be a NumPy array or torch tensor of numbers"),
        (np.zeros(6), "authors", r"^variant must be 'paper' or 'published', got 'authors'"),
    ],
)
def test_bad_arguments_are_named(labels: Any, variant: Any, message: str) -> None:
    plan, _ = _solved(6, 3, 0.5, seed=0)
    with pytest.raises(ValueError, match=message):
        csot.allocate(plan, labels, variant=variant)
