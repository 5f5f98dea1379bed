"""DivideMix against its description, row by row: division, turns, targets, losses, ramp."""

import copy
import math

import pytest
import torch
from sklearn.mixture import GaussianMixture
from torch import Tensor

from csot.methods import Role, Stream
from csot.methods.dividemix import DivideMix
from csot.methods.parts.mixing import draw_mix, linear_ramp, mean_probs
from methods.helpers import WARMUP, Tiny, accuracy, make_method, make_tiny, run_epochs


def make(tiny: Tiny, **settings: object) -> DivideMix:
    method = make_method("dividemix", tiny, **settings)
    assert isinstance(method, DivideMix)
    return method


def slow_losses(tiny: Tiny, method: DivideMix, number: int) -> list[float]:
    logits = tiny.context.predict(method.networks[number], tiny.context.rows).logits
    losses = []
    for row, z in zip(tiny.context.rows.tolist(), logits.tolist(), strict=True):
        total = math.log(sum(math.exp(value) for value in z))
        losses.append(total - z[int(tiny.context.labels[row])])
    low, high = min(losses), max(losses)
    return [(loss - low) / (high - low) for loss in losses]


def test_each_network_divides_by_a_mixture_on_its_own_losses():
    tiny = make_tiny(noise=0.3)
    method = make(tiny, warmup=3)
    run_epochs(method, tiny, 1, 3)
    generator = copy.deepcopy(tiny.context.generator)
    method.begin_epoch(4)
    for number in range(2):
        losses = torch.tensor(slow_losses(tiny, method, number), dtype=torch.float64)[:, None]
        seed = int(torch.randint(2**31, (), generator=generator))
        mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=seed)
        found = mixture.fit(losses.numpy()).predict_proba(losses.numpy())
        expected = torch.from_numpy(found[:, mixture.means_.argmin()]).float()
        torch.testing.assert_close(method.turns.trust[number, 6:], expected, atol=1e-4, rtol=1e-3)
        assert torch.equal(method.turns.clean[number, 6:], method.turns.trust[number, 6:] > 0.5)
    assert not bool(method.turns.clean[:, :6].any())  # held out


def test_losses_are_averaged_over_the_last_epochs():
    tiny = make_tiny()
    method = make(tiny, warmup=0, loss_epochs=2)
    seen = []
    for epoch in (1, 2, 3):
        run_epochs(method, tiny, epoch, epoch)
        seen.append(slow_losses(tiny, method, 1))
        method.divisions -= 1  # what follows divides again, by the parameters at the epoch's end
        method.begin_epoch(epoch)
    mean = method.history.mean(0)[1, 6:]
    torch.testing.assert_close(mean, torch.tensor(seen[1:]).mean(0), atol=1e-5, rtol=1e-4)


def test_networks_take_turns_on_the_division_of_the_other():
    tiny = make_tiny()
    method = make(tiny, warmup=1)
    warm = list(method.steps(1))
    assert [list(step) for step in warm] == [[WARMUP, Stream(Role.WARMUP, 1)]] * (114 // 24)
    method.turns.clean[0, 6:60] = True
    method.turns.clean[1, 80:120] = True
    steps = list(method.steps(2))
    # One pass over the labelled rows each: 40 rows for network 0, 54 for network 1.
    assert [next(iter(step)).network for step in steps] == [0] * 3 + [1] * 4
    for step in steps:
        number = next(iter(step)).network
        assert bool(method.turns.clean[1 - number, step[Stream(Role.LABELLED, number)]].all())
        assert not bool(method.turns.clean[1 - number, step[Stream(Role.UNLABELLED, number)]].any())


@pytest.mark.parametrize("number", [0, 1])
def test_targets_and_losses_of_a_turn(number):
    tiny = make_tiny()
    method = make(tiny, warmup=2, unlabelled_weight=30.0)
    run_epochs(method, tiny, 1, 2)
    method.turns.epoch = 2 + 1 + 3
    method.turns.clean[1 - number, 6:30] = True  # two steps
    method.turns.steps_taken[number] = 1
    weight = 30.0 * (3 + 1 / 2) / 16
    method.turns.trust[1 - number] = torch.linspace(0.5, 1, 120)
    labelled_rows, unlabelled_rows = torch.arange(6, 18), torch.arange(60, 72)
    rows = {
        Stream(Role.LABELLED, number): labelled_rows,
        Stream(Role.UNLABELLED, number): unlabelled_rows,
    }
    batch = tiny.batch(rows)
    generator = copy.deepcopy(tiny.context.generator)
    losses = method(batch)

    weak, own, other = tiny.context.views.weak, method.networks[number], method.networks[1 - number]
    parts = [batch[stream] for stream in rows]
    views = [[part.view(weak, generator) for _ in range(2)] for part in parts]
    mix = draw_mix(48, 4.0, generator, tiny.context.ranks)

    def prob(network: torch.nn.Module, x: Tensor) -> Tensor:
        return network(x[None]).logits[0].softmax(-1).detach()

    def sharpened(p: Tensor) -> Tensor:
        return p**2 / (p**2).sum()

    labelled, unlabelled = [], []
    for i, row in enumerate(labelled_rows.tolist()):
        p = (prob(own, views[0][0][i]) + prob(own, views[0][1][i])) / 2
        w, hot = float(method.turns.trust[1 - number, row]), torch.zeros(3)
        hot[tiny.context.labels[row]] = 1
        labelled.append(sharpened(w * hot + (1 - w) * p))
    for i in range(12):
        four = [prob(net, view[i]) for net in (own, other) for view in views[1]]
        unlabelled.append(sharpened(torch.stack(four).mean(0)))
    x = torch.cat([*views[0], *views[1]])
    q = torch.stack([*labelled, *labelled, *unlabelled, *unlabelled])
    partners = mix.partners
    x = mix.keep * x + (1 - mix.keep) * x[partners]
    q = mix.keep * q + (1 - mix.keep) * q[partners]
    p = own(x).logits.softmax(-1).detach()
    mean = p.mean(0)
    expected = {
        "labelled": -(q[:24] * p[:24].log()).sum() / 24,
        "unlabelled": weight * ((p[24:] - q[24:]) ** 2).sum() / (24 * 3),
        "penalty": sum(math.log(1 / 3 / float(value)) / 3 for value in mean),
    }
    assert losses.keys() == expected.keys()
    for name, value in expected.items():
        assert float(losses[name].detach()) == pytest.approx(float(value), rel=1e-4), name
    torch.stack(list(losses.values())).sum().backward()
    assert all(p.grad is None for p in other.parameters())


def test_frozen_networks_predict_in_evaluation_mode():
    tiny = make_tiny()
    network = tiny.context.make_network(0).train()
    modes: list[bool] = []
    network.register_forward_hook(lambda module, args, out: modes.append(module.training))
    mean_probs(network, [tiny.inputs], frozen=True)
    mean_probs(network, [tiny.inputs])
    assert modes == [False, True]
    assert network.training


def test_ramp():
    assert [linear_ramp(now, 16) for now in (-1, 0, 4, 16, 20)] == [0, 0, 0.25, 1, 1]
    assert linear_ramp(0, 0) == 1


def test_learns_in_spite_of_the_noise_and_says_which_labels_are_wrong():
    tiny = make_tiny(noise=0.3)
    method = make(tiny, warmup=2, unlabelled_weight=5.0, ramp_epochs=2)
    assert method.split() is None
    run_epochs(method, tiny, 1, 8)
    assert accuracy(method, tiny) > 0.9
    split, found = method.split(), method.judge()
    assert split is not None
    assert not bool((split.clean & split.corrected).any())
    is_right = tiny.context.labels == tiny.truth
    assert float(found.scores[is_right].mean()) > 0.9 > 0.3 > float(found.scores[~is_right].mean())


def test_no_label_kept_still_trains():
    tiny = make_tiny()
    method = make(tiny, warmup=0)
    method.begin_epoch(1)
    method.turns.clean.fill_(False)
    step = next(iter(method.steps(1)))
    assert list(step) == [Stream(Role.UNLABELLED)]
    losses = method(tiny.batch(step))
    assert set(losses) == {"unlabelled", "penalty"}
