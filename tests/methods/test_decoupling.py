"""Decoupling against its description: who disagrees, and what is divided by."""

import math

import pytest
import torch

from csot.methods.decoupling import Decoupling
from methods.helpers import TRAIN, WARMUP, accuracy, make_method, make_tiny, run_epochs


def slow_losses(method: Decoupling, inputs, labels, *, all_rows: bool) -> list[float]:
    """One row at a time, in plain Python."""
    logits = [network(inputs).logits.tolist() for network in method.networks]
    sums, count = [0.0, 0.0], 0
    for i, label in enumerate(labels.tolist()):
        guesses = [max(range(3), key=lambda k: of[i][k]) for of in logits]
        if all_rows or guesses[0] != guesses[1]:
            count += 1
            for number, of in enumerate(logits):
                total = sum(math.exp(value) for value in of[i])
                sums[number] -= math.log(math.exp(of[i][label]) / total)
    return [value / max(0.1 * len(labels), count) for value in sums]


@pytest.mark.parametrize(("stream", "all_rows"), [(TRAIN, False), (WARMUP, True)])
def test_losses_are_over_disagreeing_rows(stream, all_rows):
    tiny = make_tiny(weak_noise=0.0)
    method = make_method("decoupling", tiny)
    assert isinstance(method, Decoupling)
    rows = torch.arange(10, 50)
    losses = method(tiny.batch({stream: rows}))
    expected = slow_losses(method, tiny.inputs[rows], tiny.context.labels[rows], all_rows=all_rows)
    assert [float(loss.detach()) for loss in losses.values()] == pytest.approx(expected, rel=1e-5)


def test_few_disagreeing_rows_are_divided_by_a_tenth_of_the_batch():
    tiny = make_tiny(weak_noise=0.0)
    method = make_method("decoupling", tiny)
    logits = [network(tiny.inputs).logits for network in method.networks]
    disputed = logits[0].argmax(-1) != logits[1].argmax(-1)
    one, agreed = disputed.nonzero()[:1, 0], (~disputed).nonzero()[:1, 0].expand(39)
    rows = torch.cat([one, agreed])
    losses = method(tiny.batch({TRAIN: rows}))
    expected = torch.nn.functional.cross_entropy(logits[0][one], tiny.context.labels[one]) / 4
    torch.testing.assert_close(losses["network1"], expected)
    # Agreement everywhere teaches nothing.
    assert float(method(tiny.batch({TRAIN: agreed}))["network1"].detach()) == 0.0


def test_warmup_is_by_epoch_and_rows_without_a_label_are_left_out():
    tiny = make_tiny()
    tiny.context.labels[20:40] = -1
    method = make_method("decoupling", tiny, warmup=1)
    for epoch, stream in ((1, WARMUP), (2, TRAIN)):
        steps = list(method.steps(epoch))
        assert {key for step in steps for key in step} == {stream}
        seen = torch.cat([step[stream] for step in steps])
        assert bool((tiny.context.labels[seen] >= 0).all())


def test_learns():
    tiny = make_tiny(noise=0.0)
    method = make_method("decoupling", tiny)
    run_epochs(method, tiny, 1, 15)
    assert accuracy(method, tiny) > 0.85
    assert method.split() is None
