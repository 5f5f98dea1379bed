"""NGC against its description: propagation by a dense solve, components by search, contrast."""

import copy

import numpy as np
import pytest
import torch

from csot.methods.ngc import Ngc
from csot.methods.parts.mixing import draw_mix
from csot.methods.parts.neighbours import largest_components, nearest_others, propagate
from methods.helpers import TRAIN, WARMUP, accuracy, make_method, make_tiny, run_epochs
from reference import rivals
from reference import training as oracle


def draw(seed: int, rows: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    centres = 2 * torch.randn(3, 4, generator=generator)
    features = centres[torch.arange(rows) % 3] + torch.randn(rows, 4, generator=generator)
    return features, torch.rand(rows, 3, generator=generator)


@pytest.mark.parametrize("count", [1, 5, 39])
def test_propagation_solves_the_linear_system(count):
    features, seeds = draw(count)
    found = propagate(features, nearest_others(features, count), seeds)
    expected = rivals.propagated(features.double().numpy(), seeds.double().numpy(), count)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_largest_component_of_each_label(seed):
    features, seeds = draw(seed, rows=60)
    labels, chosen = seeds.argmax(-1), seeds.amax(-1) > 0.6
    neighbours = nearest_others(features, 12)
    found = largest_components(neighbours, labels, chosen)
    expected = rivals.component_sizes(neighbours.tolist(), labels.tolist(), chosen.tolist())
    assert not bool((found & ~chosen).any())
    for label, components in expected.items():
        kept = {i for i in range(60) if found[i] and labels[i] == label}
        assert kept in components
        assert len(kept) == max(map(len, components))
    assert not bool(largest_components(neighbours, labels, torch.zeros_like(chosen)).any())


def test_epochs_average_logits_and_seed_the_graph():
    tiny = make_tiny(noise=0.3)
    tiny.context.labels[50:60] = -1
    method = make_method("ngc", tiny, warmup=4, neighbours=9, low=0.3, high=0.6)
    assert isinstance(method, Ngc)
    rows = tiny.context.rows
    labels = tiny.context.labels[rows].tolist()
    seeds, average = oracle.hot(labels, 3), np.zeros((114, 3))
    hard, clean = seeds, [True] * 114
    for epoch in (1, 2, 3):
        seen = tiny.context.predict(method.network, rows)
        with torch.no_grad():
            method.begin_epoch(epoch)
            features = method.head(seen.features)
        average = 0.6 * average + 0.4 * seen.logits.double().numpy()
        if epoch > 1:
            probs = oracle.softmax(average / (1 - 0.6**epoch))
            seeds = np.where(np.array(clean)[:, None], hard, probs)
        soft = rivals.propagated(features.double().numpy(), seeds, 9)
        soft = rivals.keep_given(soft, labels, 0.3)
        assert method.labels[rows].tolist() == soft.argmax(1).tolist()
        clean = method.clean[rows].tolist()
        sure = [max(row) > 0.6 for row in soft]
        neighbours = nearest_others(features, 9).tolist()
        components = rivals.component_sizes(neighbours, soft.argmax(1).tolist(), sure)
        assert sum(clean) == sum(max(map(len, found)) for found in components.values())
        hard = oracle.hot(method.labels[rows].tolist(), 3)
        method.train()
        run_steps(method, tiny, epoch)


def run_steps(method, tiny, epoch):
    """One epoch's steps without its beginning."""
    optimiser = torch.optim.SGD(method.parameters(), lr=0.05)
    for streams in method.steps(epoch):
        torch.stack(list(method(tiny.batch(streams)).values())).sum().backward()
        optimiser.step()
        optimiser.zero_grad()


def test_losses_of_a_step():
    tiny = make_tiny()
    method = make_method("ngc", tiny)
    assert isinstance(method, Ngc)
    rows = torch.arange(6, 18)
    method.clean[rows] = torch.arange(12) % 3 > 0
    method.labels[rows] = torch.arange(12) % 2
    clean, labels = method.clean[rows].tolist(), method.labels[rows].tolist()
    batch = tiny.batch({TRAIN: rows})
    part, views = batch[TRAIN], tiny.context.views
    generator = copy.deepcopy(tiny.context.generator)
    losses = {name: value.item() for name, value in method(batch).items()}

    weak, strong = part.view(views.weak, generator), part.view(views.strong, generator)
    keep = draw_mix(24, 8.0, generator, tiny.context.ranks, own_side=False).keep
    places = [i for i in range(24) if clean[i % 12]]
    order = torch.randperm(len(places), generator=generator).tolist()
    x = oracle.mixed(torch.cat([weak, strong]).double().numpy()[places], keep, order)
    y = oracle.mixed(oracle.hot(labels * 2, 3)[places], keep, order)
    logits = method.network(torch.from_numpy(x).float()).logits.detach().double().numpy()
    assert losses["mix"] == pytest.approx(oracle.cross_entropy(logits, y), abs=1e-5)
    units = []
    for view in (weak, strong):
        z = method.head(method.network(view).features).detach().double().numpy()
        units.append(z / np.sqrt((z**2).sum(1, keepdims=True)))
    instance = rivals.pair_contrast(units[0], units[1], 0.3, both=False)
    assert losses["instance"] == pytest.approx(instance, rel=1e-4)
    supervised = rivals.supervised_contrast(units[0], units[1], labels, clean)
    assert losses["supervised"] == pytest.approx(supervised, rel=1e-4)


def test_missing_labels_have_no_part_in_the_warmup():
    tiny = make_tiny()
    tiny.context.labels[6:18] = -1
    method = make_method("ngc", tiny)
    assert method(tiny.batch({WARMUP: torch.arange(6, 18)}))["warmup"].item() == 0


def test_learns_and_judges():
    tiny = make_tiny(noise=0.3)
    tiny.context.labels[50:60] = -1
    method = make_method("ngc", tiny, neighbours=15, low=0.4, high=0.6)
    assert method.split() is None
    run_epochs(method, tiny, 1, 10)
    assert accuracy(method, tiny) > 0.9
    with torch.no_grad():
        split, found = method.split(), method.judge()
    assert split is not None
    assert not bool(split.clean[50:60].any())
    is_right = tiny.context.labels == tiny.truth
    assert float(found.scores[is_right].mean()) > 0.7 > 0.4 > float(found.scores[~is_right].mean())
