"""The defaults of `Method`, and two networks that take turns."""

from __future__ import annotations

import pytest
import torch

from csot.methods import Batch, Losses, Method, Role, Settings, Steps, Stream
from csot.methods.core.batches import one_stream
from csot.methods.core.networks import Turns, WarmupSettings, peer_logits
from methods.helpers import (
    LABELLED,
    TRAIN,
    UNLABELLED,
    WARMUP,
    Tiny,
    make_method,
    make_tiny,
    run_epochs,
)


class Ensemble(Method):
    about = "nothing but the defaults, with two networks"
    network_count = 2

    def steps(self, epoch: int) -> Steps:
        return one_stream(self.context, TRAIN)

    def forward(self, batch: Batch) -> Losses:
        raise NotImplementedError


class Alone(Ensemble):
    network_count = 1


@pytest.fixture
def tiny() -> Tiny:
    return make_tiny(weak_noise=0.0)


def plain(tiny: Tiny) -> torch.Tensor:
    view = tiny.context.views.plain
    return view(tiny.inputs, view.draw(len(tiny.inputs), torch.Generator()))


def test_networks_differ_and_their_logits_are_summed(tiny: Tiny) -> None:
    method = Ensemble(tiny.context, Settings())
    inputs = plain(tiny)
    first, second = (network(inputs).logits for network in method.networks)
    assert not torch.equal(first, second)
    expected = (first + second).log_softmax(-1)
    torch.testing.assert_close(method.predict(inputs), expected)
    found = method.judge()
    torch.testing.assert_close(found.posterior, expected.exp())
    assert found.features is None


def test_one_network_is_judged_with_its_features(tiny: Tiny) -> None:
    method = Alone(tiny.context, Settings())
    assert list(method.networks) == [method.network]
    found, outputs = method.judge(), method.network(plain(tiny))
    probs = outputs.logits.detach().softmax(-1)
    torch.testing.assert_close(found.features, outputs.features)
    for row, label in enumerate(tiny.context.labels.tolist()):
        assert float(found.scores[row]) == pytest.approx(float(probs[row, label]), abs=1e-6)
        assert bool(found.trusted[row]) == (float(probs[row].max()) > 0.5)


def test_peers_see_the_same_view() -> None:
    tiny = make_tiny(weak_noise=0.5)
    method = Ensemble(tiny.context, Settings())
    (rows,) = (step[TRAIN] for step, _ in zip(method.steps(1), range(1), strict=False))
    part = tiny.batch({TRAIN: rows})[TRAIN]
    state = tiny.context.generator.get_state()
    first, second = peer_logits(method.networks, part, tiny.context)
    tiny.context.generator.set_state(state)
    weak = tiny.context.weak_view(part)
    torch.testing.assert_close(first, method.networks[0](weak).logits)
    torch.testing.assert_close(second, method.networks[1](weak).logits)


def test_the_warmup_of_turns_is_a_step_of_each_network(tiny: Tiny) -> None:
    method = Ensemble(tiny.context, Settings())
    turns = Turns(tiny.context, WarmupSettings(warmup=1), led_by_labelled=True)
    turns.begin_epoch(1)
    step = next(turns.steps(1))
    batch = tiny.batch(step)
    losses = turns.warmup_losses(method.networks, batch)
    assert losses is not None
    expected = [
        torch.nn.functional.cross_entropy(
            method.networks[number](tiny.inputs[part.rows]).logits, part.labels
        )
        for number, part in enumerate(batch.values())
    ]
    torch.testing.assert_close(losses["warmup"], expected[0] + expected[1])
    turns.after_step(batch)
    assert turns.steps_taken == [1, 1]
    assert not bool(turns.has_split)


def test_with_a_second_look_each_network_has_a_turn_of_its_own(tiny: Tiny) -> None:
    settings = WarmupSettings(warmup=1)
    turns = Turns(tiny.context, settings, led_by_labelled=True, second_look=True)
    assert [turns.count(epoch) for epoch in (1, 2)] == [1, 2]
    turns.begin_epoch(2)
    turns.clean[:, ::2] = True
    for number in range(2):
        turns.turn = number
        streams = {stream for step in turns.steps(2) for stream in step}
        assert {stream.network for stream in streams} == {number}
    turns.begin_epoch(3)
    assert turns.turn == 0


@pytest.mark.parametrize("name", ["nce", "unicon"])
def test_labels_are_judged_again_between_the_turns(name: str) -> None:
    tiny = make_tiny()
    method = make_method(name, tiny, warmup=1)
    run_epochs(method, tiny, 1, 1)
    with torch.no_grad():
        method.begin_epoch(2)
        before = method.turns.trust.clone()
        for parameter in method.networks[0].parameters():
            parameter.mul_(1.5)
        method.begin_turn(2, 1)
        assert not torch.allclose(method.turns.trust, before)
        again = method.turns.trust.clone()
        method.begin_epoch(2)
    torch.testing.assert_close(method.turns.trust, again)
    assert make_method(name, tiny, warmup=1, second_look=False).turn_count(2) == 1


def test_turns_use_the_split_of_the_other_network(tiny: Tiny) -> None:
    turns = Turns(tiny.context, WarmupSettings(warmup=0), led_by_labelled=False)
    turns.begin_epoch(1)
    turns.clean[1, 6:30] = True  # network 0 has two steps of labelled rows, network 1 none
    steps = list(turns.steps(1))
    assert {stream for step in steps for stream in step} == {
        LABELLED,
        UNLABELLED,
        Stream(Role.UNLABELLED, 1),
    }
    assert turns.warmup_losses(torch.nn.ModuleList(), tiny.batch(steps[0])) is None
    number, labelled, unlabelled = turns.parts(tiny.batch(steps[-1]))
    assert (number, labelled) == (1, None)
    assert unlabelled is not None
    turns.after_step(tiny.batch(steps[0]))
    assert turns.trained_epochs(0) == pytest.approx(1 / 2)
    assert WARMUP not in steps[0]
