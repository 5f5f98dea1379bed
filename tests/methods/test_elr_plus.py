"""ELR+ against its description: whose average gives targets, how they are mixed, what follows."""

import copy
import math

import pytest
import torch

from csot.methods import Role, Stream
from csot.methods.elr_plus import ElrPlus
from csot.methods.parts.losses import averaged, follow, sigmoid_ramp
from csot.methods.parts.mixing import draw_mix
from methods.helpers import make_method, make_tiny, run_epochs


def make(**settings: object) -> tuple:
    tiny = make_tiny(weak_noise=0.0)
    method = make_method("elr_plus", tiny, **settings)
    assert isinstance(method, ElrPlus)
    return tiny, method


@pytest.mark.parametrize("reweighted", [False, True])
@pytest.mark.parametrize("number", [0, 1])
def test_targets_come_from_the_other_average_and_are_mixed_like_the_inputs(number, reweighted):
    tiny, method = make(momentum=0.6, weight=2.0, weight_ramp=100, reweighted_labels=reweighted)
    rows = torch.arange(20, 32)
    method.targets.uniform_(0, 0.3)
    before, generator = method.targets.clone(), copy.deepcopy(tiny.context.generator)
    losses = method(tiny.batch({Stream(Role.TRAIN, number): rows}))
    # The same draws again: the view has none without noise, so mixup's come first.
    tiny.context.views.weak.draw(len(rows), generator)
    mix = draw_mix(len(rows), 1.0, generator, tiny.context.ranks)
    assert mix.keep >= 0.5

    p_other = method.averages[1 - number](tiny.inputs[rows]).logits.softmax(-1)
    t = 0.6 * before[number, rows] + 0.4 * p_other
    torch.testing.assert_close(method.targets[number, rows], t)
    torch.testing.assert_close(method.targets[1 - number], before[1 - number])
    cross_entropy, reg = [], []
    for i, j in enumerate(mix.partners.tolist()):
        keep = mix.keep
        x = keep * tiny.inputs[rows[i]] + (1 - keep) * tiny.inputs[rows[j]]
        y = torch.zeros(3)
        y[tiny.context.labels[rows[i]]] += keep
        y[tiny.context.labels[rows[j]]] += 1 - keep
        q = keep * t[i] + (1 - keep) * t[j]
        if reweighted:
            y = y * q / (y * q).sum()
        p = method.networks[number](x[None]).logits.softmax(-1)[0]
        cross_entropy.append(-(y * p.log()).sum())
        reg.append((1 - (q * p).sum()).log())
    ramp = math.exp(-5 * (1 - 1 / 100) ** 2)
    torch.testing.assert_close(losses["cross_entropy"], torch.stack(cross_entropy).mean())
    torch.testing.assert_close(losses["regulariser"], 2.0 * ramp * torch.stack(reg).mean())


def test_only_the_network_whose_turn_it_is_learns():
    tiny, method = make()
    losses = method(tiny.batch({Stream(Role.TRAIN, 1): torch.arange(20, 32)}))
    torch.stack(list(losses.values())).sum().backward()
    assert all(p.grad is None for p in method.networks[0].parameters())
    assert all(p.grad is not None for p in method.networks[1].parameters())
    assert all(p.grad is None for p in method.averages.parameters())
    turns = [next(iter(step)).network for step in method.steps(1)]
    assert turns == [0] * 9 + [1] * 9


def test_average_follows_with_a_decay_that_rises():
    tiny, method = make(average_decay=0.9, average_ramp=10)
    weights = [p.detach().clone() for p in method.networks[0].parameters()]
    slow = [w.double() for w in weights]
    for step in range(1, 5):
        with torch.no_grad():
            for weight in method.networks[0].parameters():
                weight.add_(0.1)
        method.after_step(tiny.batch({Stream(Role.TRAIN, 0): torch.arange(3)}))
        decay = 0.9 * math.exp(-5 * (1 - (step + 1) / 10) ** 2)
        slow = [
            decay * old + (1 - decay) * new.detach().double()
            for old, new in zip(slow, method.networks[0].parameters(), strict=True)
        ]
    for mean, expected in zip(method.averages[0].parameters(), slow, strict=True):
        torch.testing.assert_close(mean, expected.float())


def test_average_leaves_statistics_alone():
    network = torch.nn.BatchNorm1d(2)
    average = averaged(network)
    assert not any(p.requires_grad for p in average.parameters())
    network(torch.randn(8, 2, generator=torch.Generator().manual_seed(0)) + 5)
    follow(average, network, 0.5)
    torch.testing.assert_close(average.running_mean, torch.zeros(2))


def test_ramp_ends_at_one_and_may_be_missing():
    assert sigmoid_ramp(0, 10) == pytest.approx(math.exp(-5))
    assert sigmoid_ramp(10, 10) == sigmoid_ramp(20, 10) == sigmoid_ramp(3, 0) == 1.0


def test_judgement_is_the_mean_target_of_both():
    tiny, method = make(average_ramp=0)
    run_epochs(method, tiny, 1, 2)
    mean = method.targets.mean(0)[6:]
    seen = mean.sum(-1) > 0
    expected = (mean / mean.sum(-1, keepdim=True))[seen]
    torch.testing.assert_close(method.judge().posterior[6:][seen], expected)
