"""UniCon against its description: divergences, selection, contrast and the losses of a turn."""

import copy

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

from csot.methods.parts.losses import pair_contrast
from csot.methods.parts.mixing import draw_mix
from csot.methods.unicon import Unicon, js_to_label, select_evenly
from methods.helpers import LABELLED, UNLABELLED, accuracy, make_method, make_tiny, run_epochs
from reference import rivals
from reference import training as oracle


def test_divergence_is_scipys():
    probs = torch.randn(20, 4, generator=torch.Generator().manual_seed(0)).double().softmax(-1)
    probs[0] = torch.tensor([0.0, 1, 0, 0])
    labels = torch.arange(20) % 4
    hot = oracle.hot(labels.tolist(), 4)
    expected = jensenshannon(probs.numpy(), hot, axis=1) ** 2
    np.testing.assert_allclose(js_to_label(probs, labels).numpy(), expected, atol=1e-12)
    missing = js_to_label(probs, torch.full((20,), -1))
    np.testing.assert_allclose(missing.numpy(), np.log(2))


@pytest.mark.parametrize("seed", range(4))
def test_as_many_of_each_class(seed):
    rng = np.random.default_rng(seed)
    labels = rng.choice([-1, 0, 1, 2], size=60, p=[0.1, 0.6, 0.2, 0.1])
    values = rng.random(60)
    kept, share = select_evenly(torch.from_numpy(values), torch.from_numpy(labels), 3)
    expected, fraction = rivals.even_selection(values.tolist(), labels.tolist(), 3)
    assert set(kept.nonzero()[:, 0].tolist()) == expected
    assert share == pytest.approx(fraction)


def test_no_label_at_all():
    kept, share = select_evenly(torch.rand(5), torch.full((5,), -1), 3)
    assert not bool(kept.any())
    assert share == 0


@pytest.mark.parametrize("both", [True, False])
def test_contrast_of_two_views(both):
    generator = torch.Generator().manual_seed(1)
    first, second = torch.nn.functional.normalize(
        torch.randn(2, 7, 5, generator=generator, dtype=torch.float64), dim=-1
    )
    expected = rivals.pair_contrast(first.numpy(), second.numpy(), 0.3, both=both)
    found = pair_contrast(first, second, 0.3, both=both).item()
    assert found == pytest.approx(expected, rel=1e-5)


def test_both_networks_share_one_split():
    tiny = make_tiny(noise=0.3)
    tiny.context.labels[50:60] = -1
    method = make_method("unicon", tiny, warmup=2, head_norm="none")
    assert isinstance(method, Unicon)
    run_epochs(method, tiny, 1, 2)
    method.begin_epoch(3)
    rows = tiny.context.rows
    probs = sum(tiny.context.predict(net, rows).probs.double() for net in method.networks) / 2
    labels = tiny.context.labels[rows].tolist()
    divergence = np.full(len(labels), np.log(2))
    for i, label in enumerate(labels):
        if label >= 0:
            divergence[i] = jensenshannon(probs[i].numpy(), oracle.hot([label], 3)[0]) ** 2
    expected, share = rivals.even_selection(divergence.tolist(), labels, 3)
    for number in range(2):
        assert set(method.turns.clean[number, 6:].nonzero()[:, 0].tolist()) == expected
        trust = np.where(divergence < 0.5, 1, 1 - divergence)
        np.testing.assert_allclose(method.turns.trust[number, 6:].numpy(), trust, atol=1e-5)
    # 12 / (2 R), as a multiple of eight.
    assert method.turns.unlabelled_batch == 8 * max(1, round(12 / (2 * share) / 8))
    sizes = {(stream.role, len(rows)) for step in method.steps(3) for stream, rows in step.items()}
    assert sizes == {(LABELLED.role, 12), (UNLABELLED.role, method.turns.unlabelled_batch)}


def test_losses_of_a_turn():
    tiny = make_tiny()
    method = make_method("unicon", tiny, warmup=0, ramp_epochs=0, head_norm="none")
    assert isinstance(method, Unicon)
    method.turns.trust[:] = 0.8
    batch = tiny.batch({LABELLED: torch.arange(6, 18), UNLABELLED: torch.arange(60, 76)})
    generator = copy.deepcopy(tiny.context.generator)
    losses = {name: value.item() for name, value in method(batch).items()}

    views, (own, other) = tiny.context.views, method.networks

    def drawn(part, view):
        return [part.view(view, generator) for _ in range(2)]

    def probs(network, seen):
        return sum(network(x).logits.detach().double().softmax(-1) for x in seen).numpy() / 2

    kept, rest = batch[LABELLED], batch[UNLABELLED]
    weak, strong = drawn(kept, views.weak), drawn(kept, views.strong)
    weak_u, strong_u = drawn(rest, views.weak), drawn(rest, views.strong)
    refined = oracle.refine(kept.labels.tolist(), probs(own, weak), [0.8] * 12, 0.5)
    guessed = oracle.sharpen((probs(own, weak_u) + probs(other, weak_u)) / 2, 0.5)
    mix = draw_mix(56, 4.0, generator, tiny.context.ranks)
    targets = np.concatenate([refined, refined, guessed, guessed])
    targets = oracle.mixed(targets, mix.keep, mix.partners.tolist())
    inputs = torch.cat([*strong, *strong_u]).double().numpy()
    inputs = oracle.mixed(inputs, mix.keep, mix.partners.tolist())
    logits = own(torch.from_numpy(inputs).float()).logits.detach().double().numpy()
    assert losses["labelled"] == pytest.approx(
        oracle.cross_entropy(logits[:24], targets[:24]), abs=1e-5
    )
    errors = (oracle.softmax(logits[24:]) - targets[24:]) ** 2
    assert losses["unlabelled"] == pytest.approx(30 * errors.mean(), abs=1e-4)
    assert losses["penalty"] == pytest.approx(oracle.prior_penalty(logits), abs=1e-5)
    z = [method.heads[0](own(x).features).detach().double().numpy() for x in strong_u]
    z = [one / np.sqrt((one**2).sum(1, keepdims=True)) for one in z]
    contrast = rivals.pair_contrast(z[0], z[1], 0.05)
    assert losses["contrast"] == pytest.approx(0.025 * contrast, abs=1e-5)


def test_learns_and_splits():
    tiny = make_tiny(noise=0.3)
    tiny.context.labels[50:60] = -1
    method = make_method("unicon", tiny, warmup=2)
    assert method.split() is None
    run_epochs(method, tiny, 1, 8)
    assert accuracy(method, tiny) > 0.9
    split = method.split()
    assert split is not None
    assert not bool(split.clean[50:60].any())
