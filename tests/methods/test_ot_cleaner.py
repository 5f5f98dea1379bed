"""OT Cleaner against its description; its plans against the reference Sinkhorn in float64."""

import math

import numpy as np
import pytest
import torch

from csot.methods.ot_cleaner import OtCleaner
from methods.helpers import TRAIN, accuracy, make_method, make_tiny, run_epochs
from reference.transport import cost_matrix, sinkhorn


def slow_plan(probs: np.ndarray) -> np.ndarray:
    n, c = probs.shape
    plan = sinkhorn(cost_matrix(probs), np.full(n, 1 / n), np.full(c, 1 / c), 1 / 25, 3000)
    return plan / plan.sum(1, keepdims=True)


def test_labels_are_those_of_a_balanced_plan():
    tiny = make_tiny(epochs=6)
    method = make_method("ot_cleaner", tiny, warmup=2)
    assert isinstance(method, OtCleaner)
    run_epochs(method, tiny, 1, 2)
    assert method.split() is None
    method.begin_epoch(3)
    rows = tiny.context.rows
    probs = tiny.context.predict(method.network, rows).probs.double().numpy()
    expected = slow_plan(probs).argmax(-1)
    assert method.labels[rows].tolist() == expected.tolist()
    assert bool((method.labels[:6] == tiny.context.labels[:6]).all())
    all_probs = tiny.context.predict(method.network, tiny.context.all_rows).probs.double().numpy()
    verdict = method.judge()
    np.testing.assert_allclose(verdict.posterior.numpy(), slow_plan(all_probs), atol=1e-4)


def test_loss_is_small_losses_with_given_labels_and_the_others_with_the_plans():
    tiny = make_tiny(weak_noise=0.0)
    tiny.context.labels[12] = -1
    method = make_method("ot_cleaner", tiny, noise_rate=0.3, warmup=1)
    assert isinstance(method, OtCleaner)
    method.labels.copy_((tiny.truth + 1) % 3)
    method.has_plan.fill_(True)
    rows = torch.arange(10, 50)
    losses = method(tiny.batch({TRAIN: rows}))
    logits = method.network(tiny.inputs).logits.tolist()

    def loss(i: int, label: int) -> float:
        return math.log(sum(math.exp(value) for value in logits[i])) - logits[i][label]

    given = tiny.context.labels.tolist()
    there = [i for i in rows.tolist() if given[i] >= 0]
    small = sorted(there, key=lambda i: loss(i, given[i]))[: int(0.7 * len(there))]
    others = [i for i in rows.tolist() if i not in small]
    first = sum(loss(i, given[i]) for i in small) / len(small)
    second = sum(loss(i, int(method.labels[i])) for i in others) / len(others)
    found = [float(losses[name].detach()) for name in ("small", "replaced")]
    assert found == pytest.approx([first, second], rel=1e-5)
    split = method.split()
    assert split is not None
    assert split.clean.nonzero()[:, 0].tolist() == sorted(small)
    assert not bool((split.clean & split.corrected).any())


def test_plans_are_renewed_at_squares():
    """(j / 99)^2 of 200 epochs: after the epochs within which such a time falls."""
    tiny = make_tiny(epochs=200)
    method = make_method("ot_cleaner", tiny)
    assert isinstance(method, OtCleaner)
    times = [200 * (j / 99) ** 2 for j in range(100)]
    expected = [
        epoch
        for epoch in range(2, 201)
        if any(epoch - 2 < time <= epoch - 1 + 1e-9 for time in times)
    ]
    assert [epoch for epoch in range(2, 201) if method._is_due(epoch)] == expected
    assert len([epoch for epoch in expected if epoch <= 20]) == 18
    assert len([epoch for epoch in expected if epoch > 180]) < 10


def test_warmup_estimates_the_rate_and_the_run_learns():
    tiny = make_tiny(rows=600, noise=0.3, epochs=12, batch_size=20)
    method = make_method("ot_cleaner", tiny, warmup=4)
    assert isinstance(method, OtCleaner)
    run_epochs(method, tiny, 1, 12)
    assert int(method.noise.updates) == 4
    wrong = (tiny.context.labels != tiny.truth)[tiny.context.rows].float().mean()
    assert method.noise.read() == pytest.approx(float(wrong), abs=0.07)
    assert accuracy(method, tiny) > 0.9
    other = make_method("ot_cleaner", tiny, warmup=4)
    other.load_state_dict(method.state_dict())
    torch.testing.assert_close(other.judge().posterior, method.judge().posterior)
