"""Every loss and target against the oracle: values, and gradients by finite differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from csot._core.ranks import Ranks
from csot.methods.parts.losses import (
    cross_entropy,
    each_cross_entropy,
    negative_cosine,
    negative_entropy,
    one_hot,
    prior_penalty,
    refine,
    sharpen,
    simsiam,
)
from helpers import LOSS_TOLERANCE
from reference import training as oracle

ROWS, CLASSES = 6, 4
LABELS = [0, 3, -1, 2, 2, 1]


def some(seed: int, rows: int = ROWS, columns: int = CLASSES, scale: float = 2.0) -> oracle.Array:
    return np.random.default_rng(seed).normal(0, scale, (rows, columns))


def shares(seed: int) -> oracle.Array:
    return oracle.softmax(some(seed))


def compare(
    ours: Callable[[Tensor], Tensor], theirs: Callable[[oracle.Array], float], at: oracle.Array
) -> None:
    """Value and gradient of a scalar function of one array."""
    inputs = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    value = ours(inputs)
    assert value.shape == ()
    assert float(value.detach()) == pytest.approx(theirs(at), abs=LOSS_TOLERANCE)
    (slopes,) = torch.autograd.grad(value, inputs)
    np.testing.assert_allclose(slopes, oracle.gradient(theirs, at), atol=LOSS_TOLERANCE)


def tensor(values: object) -> Tensor:
    return torch.tensor(np.array(values), dtype=torch.float32)


def test_one_hot_of_no_label_is_zero() -> None:
    assert one_hot(torch.tensor(LABELS), CLASSES).tolist() == oracle.hot(LABELS, CLASSES).tolist()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("soft", [False, True])
def test_cross_entropy(soft: bool, weighted: bool) -> None:
    targets = shares(1) if soft else oracle.hot(LABELS, CLASSES)
    given = tensor(targets) if soft else torch.tensor(LABELS)
    weights = [0.0, 1.0, 0.3, 2.0, 0.5, 1.0] if weighted else None
    compare(
        lambda x: cross_entropy(x, given, None if weights is None else tensor(weights)),
        lambda x: oracle.cross_entropy(x, targets, weights),
        some(2),
    )


def test_cross_entropy_without_any_label_is_zero() -> None:
    logits = tensor(some(3)).requires_grad_()
    loss = cross_entropy(logits, torch.full((ROWS,), -1))
    loss.backward()
    assert float(loss.detach()) == 0
    assert logits.grad is not None
    assert not logits.grad.any()


def test_cross_entropy_of_each_row() -> None:
    logits = some(4)
    each = each_cross_entropy(tensor(logits), torch.tensor(LABELS))
    wanted = [
        oracle.cross_entropy(logits[i : i + 1], oracle.hot([label], CLASSES))
        for i, label in enumerate(LABELS)
    ]
    np.testing.assert_allclose(each, wanted, atol=LOSS_TOLERANCE)


def test_gradient_reaches_soft_targets() -> None:
    """The published code leaves the weak view's prediction attached to the target."""
    logits = some(5)
    compare(
        lambda x: cross_entropy(tensor(logits).double(), x.softmax(-1)),
        lambda x: oracle.cross_entropy(logits, oracle.softmax(x)),
        some(6),
    )


def test_negative_entropy() -> None:
    compare(negative_entropy, oracle.negative_entropy, some(7))
    assert float(negative_entropy(torch.zeros(3, CLASSES))) == pytest.approx(-np.log(CLASSES))


def test_prior_penalty() -> None:
    compare(lambda x: prior_penalty(x, Ranks()), oracle.prior_penalty, some(8))
    assert float(prior_penalty(torch.zeros(3, CLASSES), Ranks())) == pytest.approx(0, abs=1e-6)


def test_prior_penalty_of_a_class_that_nobody_predicts_is_finite() -> None:
    logits = torch.tensor([[0.0, -500.0]] * 3, requires_grad=True)
    loss = prior_penalty(logits, Ranks())
    loss.backward()
    assert torch.isfinite(loss)
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_sharpen(temperature: float) -> None:
    probs = shares(9)
    found = sharpen(tensor(probs), temperature)
    np.testing.assert_allclose(found, oracle.sharpen(probs, temperature), atol=LOSS_TOLERANCE)


def test_sharpen_keeps_a_certain_row() -> None:
    certain = torch.eye(CLASSES)
    torch.testing.assert_close(sharpen(certain, 0.5), certain)


def test_refine() -> None:
    labels, weights = [0, 3, 1, 2, 2, 1], [0.0, 1.0, 0.2, 0.5, 0.9, 1.0]
    probs = shares(10)
    found = refine(torch.tensor(labels), tensor(probs), tensor(weights), 0.5)
    wanted = oracle.refine(labels, probs, weights, 0.5)
    np.testing.assert_allclose(found, wanted, atol=LOSS_TOLERANCE)
    np.testing.assert_allclose(found.sum(1), 1, atol=LOSS_TOLERANCE)


def test_negative_cosine() -> None:
    target = some(11)
    compare(
        lambda x: negative_cosine(x, tensor(target)),
        lambda x: oracle.negative_cosine(x, target),
        some(12),
    )


def test_simsiam_moves_predictions_and_not_features() -> None:
    one, other, first, second = (some(seed) for seed in range(13, 17))
    compare(
        lambda x: simsiam((x, tensor(other)), (tensor(first), tensor(second))),
        lambda x: oracle.simsiam((x, other), (first, second)),
        one,
    )
    compare(
        lambda x: simsiam((tensor(one), x), (tensor(first), tensor(second))),
        lambda x: oracle.simsiam((one, x), (first, second)),
        other,
    )
    features = tensor(first).requires_grad_(), tensor(second).requires_grad_()
    predicted = tensor(one).requires_grad_()
    simsiam((predicted, tensor(other)), features).backward()
    assert features[0].grad is None
    assert features[1].grad is None
    assert predicted.grad is not None


def test_simsiam_falls_as_views_agree() -> None:
    same = tensor(some(17))
    assert float(simsiam((same, same), (same, same))) == pytest.approx(-1)


def test_losses_of_half_precision_are_computed_in_single() -> None:
    logits = tensor(some(18)).to(torch.bfloat16)
    labels = torch.tensor(LABELS)
    assert cross_entropy(logits, labels).dtype == torch.float32
    assert negative_entropy(logits).dtype == torch.float32
    assert prior_penalty(logits, Ranks()).dtype == torch.float32
    assert negative_cosine(logits, logits).dtype == torch.float32
