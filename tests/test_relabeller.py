"""The relabeller: the parts that it is made of, NumPy and torch, checkpoints, bad input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

import csot

CLASSES = 3


def problem(seed: int = 0, rows: int = 60) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits, features and labels of planted classes; a quarter of the labels is wrong."""
    rng = np.random.default_rng(seed)
    truth = np.arange(rows) % CLASSES
    features = 2.0 * rng.normal(size=(CLASSES, 6))[truth] + rng.normal(size=(rows, 6))
    logits = 2.0 * np.eye(CLASSES)[truth] + rng.normal(size=(rows, CLASSES))
    labels = np.where(rng.random(rows) < 0.25, rng.integers(CLASSES, size=rows), truth)
    return (*(torch.from_numpy(x).float() for x in (logits, features)), torch.from_numpy(labels))


def assert_equal(one: csot.Allocation, other: csot.Allocation) -> None:
    for name in ("pseudo_labels", "weights", "selected", "clean", "corrupted"):
        np.testing.assert_array_equal(
            np.asarray(getattr(one, name)), np.asarray(getattr(other, name)), err_msg=name
        )


def test_it_is_budget_solve_and_allocate() -> None:
    logits, features, labels = problem()
    relabeller = csot.Relabeller(epochs=5, num_classes=CLASSES, epsilon=0.05, coherence=2.0)
    budgets = csot.curriculum.linear(epochs=5, start=0.3)
    for epoch in range(1, 8):
        found = relabeller.update(logits, features, labels)
        plan = csot.solve(
            log_probs=logits.log_softmax(1),
            features=features,
            labels=labels,
            budget=budgets(epoch),
            epsilon=0.05,
            coherence=2.0,
        )
        assert_equal(found, csot.allocate(plan, labels))
        assert relabeller.epoch == epoch
        assert relabeller.budget == budgets(epoch)
        assert int(found.selected.sum()) == int(budgets(epoch) * len(labels) + 1e-9)
    assert relabeller.plan is not None
    assert relabeller.plan.converged


def test_numpy_and_torch_agree() -> None:
    parts = problem()
    one = csot.Relabeller(epochs=3, num_classes=CLASSES).update(*parts)
    other = csot.Relabeller(epochs=3, num_classes=CLASSES).update(*(x.numpy() for x in parts))
    assert isinstance(one.clean, torch.Tensor)
    assert isinstance(other.clean, np.ndarray)
    assert_equal(one, other)


def test_logits_may_have_a_gradient_and_any_offset() -> None:
    logits, features, labels = problem()
    plain = csot.Relabeller(epochs=3, num_classes=CLASSES).update(logits, features, labels)
    shifted = (logits.double() + 64.0).requires_grad_()
    again = csot.Relabeller(epochs=3, num_classes=CLASSES).update(
        shifted, features.double().requires_grad_(), labels
    )
    assert torch.equal(plain.clean, again.clean)
    assert not again.weights.requires_grad


def test_the_order_of_the_rows_does_not_matter() -> None:
    logits, features, labels = problem()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    one = csot.Relabeller(epochs=3, num_classes=CLASSES).update(logits, features, labels)
    other = csot.Relabeller(epochs=3, num_classes=CLASSES).update(
        logits[order], features[order], labels[order]
    )
    assert torch.equal(one.pseudo_labels[order], other.pseudo_labels)


def test_a_checkpoint_goes_on_where_it_was() -> None:
    parts = problem()
    whole = csot.Relabeller(epochs=4, num_classes=CLASSES)
    found = [whole.update(*parts) for _ in range(3)]
    first = csot.Relabeller(epochs=4, num_classes=CLASSES)
    first.update(*parts)
    state = json.loads(json.dumps(first.state_dict()))
    second = csot.Relabeller(epochs=4, num_classes=CLASSES)
    second.load_state_dict(state)
    assert second.epoch == 1
    assert_equal(second.update(*parts), found[1])
    assert_equal(second.update(*parts), found[2])


def test_a_schedule_of_ones_own() -> None:
    relabeller = csot.Relabeller(epochs=1, num_classes=CLASSES, schedule=lambda epoch: 0.5)
    assert int(relabeller.update(*problem()).selected.sum()) == 30
    assert repr(relabeller) == "Relabeller(epochs=1, num_classes=3, epoch=1, budget=0.5)"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
        ({"num_classes": 1}, "num_classes must be a whole number of at least 2, got 1"),
        ({"num_classes": 2.0}, r"num_classes must be a whole number of at least 2, got 2\.0"),
        ({"start_budget": 0.0}, "start must be a budget"),
        ({"schedule": 0.5}, "schedule must be a function"),
    ],
)
def test_bad_settings(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        csot.Relabeller(**{"epochs": 3, "num_classes": CLASSES, **changed})


def test_bad_input_does_not_count_as_an_epoch() -> None:
    logits, features, labels = problem()
    relabeller = csot.Relabeller(epochs=3, num_classes=CLASSES)
    broken = logits.clone()
    broken[7, 1] = torch.nan
    for wrong, message in [
        ((logits[:, :2], features, labels), r"logits has shape \(60, 2\); \(N, 3\) is needed"),
        ((broken, features, labels), "NaN or infinity in 1 rows, first 7: the network has"),
        ((logits, features, labels[:5]), "labels"),
        ((logits, features[:5], labels), "features"),
    ]:
        with pytest.raises(ValueError, match=message):
            relabeller.update(*wrong)
    assert relabeller.epoch == 0
    with pytest.raises(ValueError, match="state lacks epochs, num_classes"):
        relabeller.load_state_dict({"epoch": 1})
    with pytest.raises(ValueError, match="saved with epochs=9, this relabeller has 3"):
        relabeller.load_state_dict({**relabeller.state_dict(), "epochs": 9})
