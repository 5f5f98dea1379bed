"""MOIT against its description: votes, trusted labels, interpolated contrast and targets."""

import copy

import numpy as np
import pytest
import torch

from csot.methods.moit import Moit, trust_evenly, winners
from csot.methods.parts.mixing import draw_mix
from methods.helpers import TRAIN, accuracy, make_method, make_tiny, run_epochs
from reference import rivals
from reference import training as oracle


def test_trusted_labels_come_from_two_votes():
    tiny = make_tiny(noise=0.3)
    tiny.context.labels[50:60] = -1
    method = make_method("moit", tiny, neighbours=9)
    assert isinstance(method, Moit)
    run_epochs(method, tiny, 1, 2)
    method.begin_epoch(3)
    rows = tiny.context.rows
    features = method.head(tiny.context.predict(method.network, rows).features)
    expected, voted = rivals.twice_voted(
        features.detach().double().numpy(), tiny.context.labels[rows].tolist(), 9, 3
    )
    assert set(method.trusted[6:].nonzero()[:, 0].tolist()) == expected
    assert method.voted[6:].tolist() == voted
    assert method.trusted[:6].tolist() == [1.0] * 6  # held out


def test_rows_without_votes():
    votes = torch.tensor([[0.0, 0.0], [0.2, 0.6], [0.5, 0.1]])
    assert winners(votes).tolist() == [-1, 1, 0]
    assert trust_evenly(votes, torch.tensor([-1, 1, 0])).tolist() == [False, True, True]
    assert not bool(trust_evenly(votes, torch.tensor([-1, -1, -1])).any())


@pytest.mark.parametrize("epoch", [2, 7])
def test_losses_of_a_step(epoch):
    """Epoch 2 is of the first stage and without memory, epoch 7 of the second and with it."""
    tiny = make_tiny()
    tiny.context.labels[[8, 9, 33]] = -1
    method = make_method("moit", tiny, first_stage=5, memory=10)
    assert isinstance(method, Moit)
    past = []
    for first in (30, 42):
        rows = torch.arange(first, first + 12)
        method.epoch = 1
        method(tiny.batch({TRAIN: rows}))
        past += [*tiny.context.labels[rows].tolist()] * 2
    memory = method.memory[-48:].double().numpy()
    assert method.memory_labels[-48:].tolist() == past
    method.epoch = epoch
    method.trusted[6:12] = 0
    batch = tiny.batch({TRAIN: torch.arange(6, 18)})
    part, views = batch[TRAIN], tiny.context.views
    generator = copy.deepcopy(tiny.context.generator)
    losses = {name: value.item() for name, value in method(batch).items()}

    strong = [part.view(views.strong, generator) for _ in range(2)]
    mixes = [draw_mix(12, 1.0, generator, tiny.context.ranks) for _ in range(2)]
    labels = part.labels.tolist()
    probs = oracle.softmax(
        method.network(part.view(views.plain, generator)).logits.detach().double().numpy()
    )
    trust = [0.0] * 6 + [1.0] * 6 if epoch == 7 else [1.0] * 12
    hot = oracle.hot(labels, 3)
    expected, units = 0.0, []
    for view, mix in zip(strong, mixes, strict=True):
        partners = mix.partners.tolist()
        inputs = torch.from_numpy(oracle.mixed(view.double().numpy(), mix.keep, partners))
        seen = method.network(inputs.float())
        logits = np.log(oracle.softmax(seen.logits.detach().double().numpy()))
        z = method.head(seen.features).detach().double().numpy()
        units += [row / np.sqrt(sum(row**2)) for row in z]
        for i, j in enumerate(partners):
            keep = mix.keep
            target = trust[i] * (keep * hot[i] + (1 - keep) * hot[j])
            target = target + keep * (1 - trust[i]) * probs[i]
            target = target + (1 - keep) * (1 - trust[j]) * probs[j]
            expected -= sum(target * logits[i]) / 24
    assert losses["classification"] == pytest.approx(expected, abs=1e-5)
    given = [(mix.keep, mix.partners.tolist()) for mix in mixes]
    contrast = rivals.interpolated_contrast(units, labels, given, 0.1, [], [])
    if epoch == 7:
        # 60 places: 24 are of this batch, which leaves 36 of the 48 before.
        contrast += rivals.interpolated_contrast(
            units, labels, given, 0.1, memory[-36:], past[-36:]
        )
    assert losses["contrast"] == pytest.approx(contrast, rel=1e-4)


def test_learns_and_judges():
    tiny = make_tiny(noise=0.3)
    tiny.context.labels[50:60] = -1
    method = make_method("moit", tiny, first_stage=4, neighbours=20)
    assert method.split() is None
    run_epochs(method, tiny, 1, 8)
    assert accuracy(method, tiny) > 0.9
    split, found = method.split(), method.judge()
    assert split is not None
    assert not bool(split.clean[50:60].any())
    is_right = tiny.context.labels == tiny.truth
    assert float(found.scores[is_right].mean()) > 0.8 > 0.4 > float(found.scores[~is_right].mean())
