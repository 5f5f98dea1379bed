"""Co-teaching and Co-teaching+ against their descriptions, one row at a time."""

import math

import pytest
import torch

from csot.methods.co_teaching import CoTeaching
from csot.methods.co_teaching_plus import CoTeachingPlus
from methods.helpers import TRAIN, WARMUP, accuracy, make_method, make_tiny, run_epochs


def slow_co_teaching(method: CoTeaching, inputs, labels, forget, *, disputed_only=False):
    """Losses of both networks and the rows each has picked, in plain Python."""
    logits = [network(inputs).logits.tolist() for network in method.networks]
    rows = list(range(len(labels)))
    if disputed_only:
        rows = [i for i in rows if len({of[i].index(max(of[i])) for of in logits}) == 2]

    def loss(number: int, i: int) -> float:
        total = sum(math.exp(value) for value in logits[number][i])
        return math.log(total) - logits[number][i][int(labels[i])]

    count = int((1 - forget) * len(rows) + 1e-9) or len(rows)
    picks = [sorted(rows, key=lambda i: loss(a, i))[:count] for a in range(2)]
    means = [sum(loss(a, i) for i in picks[1 - a]) / count for a in range(2)]
    return means, picks


def as_lists(kept):
    return [kept[:, a].nonzero()[:, 0].tolist() for a in range(2)]


@pytest.mark.parametrize("rate", [0.0, 0.25, 0.4])
def test_each_network_learns_from_its_peers_small_losses(rate):
    tiny = make_tiny(weak_noise=0.0)
    method = make_method("co_teaching", tiny, noise_rate=rate, gradual=2)
    assert isinstance(method, CoTeaching)
    assert method.begin_epoch(2)["forget_rate"] == pytest.approx(rate)
    rows = torch.arange(10, 50)
    losses = method(tiny.batch({TRAIN: rows}))
    means, picks = slow_co_teaching(method, tiny.inputs[rows], tiny.context.labels[rows], rate)
    assert [float(loss.detach()) for loss in losses.values()] == pytest.approx(means, rel=1e-5)
    assert as_lists(method.kept[rows]) == [sorted(picked) for picked in picks]
    split = method.split()
    assert split is not None
    assert set(split.clean.nonzero()[:, 0].tolist()) == {
        10 + i for i in set(picks[0]) & set(picks[1])
    }
    assert not bool(split.corrected.any())


def test_the_share_to_forget_rises_in_a_straight_line():
    tiny = make_tiny()
    method = make_method("co_teaching", tiny, noise_rate=0.4, gradual=5)
    rates = [method.begin_epoch(epoch)["forget_rate"] for epoch in range(1, 8)]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.4, 0.4])


def test_the_estimate_is_made_while_the_share_rises_and_then_stays():
    tiny = make_tiny(rows=600, noise=0.3, epochs=8, batch_size=20)
    method = make_method("co_teaching", tiny, gradual=4)
    assert isinstance(method, CoTeaching)
    run_epochs(method, tiny, 1, 8)
    assert int(method.noise.updates) == 4
    right = tiny.context.labels == tiny.truth
    truly = 1 - float(right[tiny.context.rows].float().mean())
    assert method.noise.read() == pytest.approx(truly, abs=0.07)
    # It forgets what is wrong rather than what is right.
    split = method.split()
    assert split is not None
    trained = torch.zeros_like(right)
    trained[tiny.context.rows] = True
    assert float(right[split.clean].float().mean()) > 0.93
    assert float(split.clean[right & trained].float().mean()) > 0.8


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_plus_picks_among_disputed_rows(rate):
    tiny = make_tiny(weak_noise=0.0)
    method = make_method("co_teaching_plus", tiny, noise_rate=rate, gradual=2, plain=3)
    assert isinstance(method, CoTeachingPlus)
    method.begin_epoch(4)
    assert {stream for step in method.steps(3) for stream in step} == {WARMUP}
    assert {stream for step in method.steps(4) for stream in step} == {TRAIN}
    rows = torch.arange(10, 50)
    for stream in (WARMUP, TRAIN):
        losses = method(tiny.batch({stream: rows}))
        means, picks = slow_co_teaching(
            method,
            tiny.inputs[rows],
            tiny.context.labels[rows],
            rate,
            disputed_only=stream == TRAIN,
        )
        assert [float(x.detach()) for x in losses.values()] == pytest.approx(means, rel=1e-5)
        assert as_lists(method.kept[rows]) == [sorted(picked) for picked in picks]


def test_plus_learns_from_all_rows_where_nothing_is_disputed_for_a_while():
    """As long as the epoch times the step, counted from 0, is below the bound."""
    tiny = make_tiny(weak_noise=0.0)
    method = make_method("co_teaching_plus", tiny, noise_rate=0.5, plain=0, agreeing_steps=40)
    logits = [network(tiny.inputs).logits for network in method.networks]
    rows = (logits[0].argmax(-1) == logits[1].argmax(-1)).nonzero()[:20, 0]
    method.begin_epoch(20)
    expected = torch.nn.functional.cross_entropy(logits[0][rows], tiny.context.labels[rows])
    losses = [method(tiny.batch({TRAIN: rows}))["network1"] for _ in range(3)]
    for loss, step in zip(losses, range(3), strict=True):
        torch.testing.assert_close(loss, expected if 20 * step < 40 else torch.zeros(()))
    method.begin_epoch(41)
    torch.testing.assert_close(method(tiny.batch({TRAIN: rows}))["network1"], expected)


@pytest.mark.parametrize("name", ["co_teaching", "co_teaching_plus", "decoupling"])
def test_the_first_network_predicts(name):
    tiny = make_tiny()
    method = make_method(name, tiny)
    assert method.separate
    wanted = method.networks[0](tiny.inputs).logits.log_softmax(-1)
    torch.testing.assert_close(method.predict(tiny.inputs), wanted)


def test_adams_first_beta_falls_late():
    method = make_method("co_teaching", make_tiny(), late=2)
    group = {"lr": 1.0, "betas": (0.9, 0.999)}
    method.update_param_group(2, group)
    assert group["betas"] == (0.9, 0.999)
    method.update_param_group(3, group)
    assert group["betas"] == (0.1, 0.999)
    plain = {"lr": 1.0, "momentum": 0.9}
    method.update_param_group(3, plain)
    assert plain == {"lr": 1.0, "momentum": 0.9}


@pytest.mark.parametrize("name", ["co_teaching", "co_teaching_plus"])
def test_learns_and_state_survives_a_checkpoint(name):
    tiny = make_tiny(noise=0.2, epochs=12)
    settings = {"gradual": 4} if name == "co_teaching" else {"gradual": 4, "plain": 8}
    method = make_method(name, tiny, **settings)
    run_epochs(method, tiny, 1, 12)
    assert accuracy(method, tiny) > 0.85
    other = make_method(name, tiny, **settings)
    other.load_state_dict(method.state_dict())
    for key, value in method.state_dict().items():
        assert torch.equal(other.state_dict()[key], value)
    torch.testing.assert_close(other.judge().posterior, method.judge().posterior)
