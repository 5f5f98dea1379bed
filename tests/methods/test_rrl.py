"""RRL against its description: soft labels, prototypes and the losses of a step."""

import copy

import numpy as np
import pytest
import torch

from csot.methods.parts.mixing import draw_mix
from csot.methods.rrl import Rrl
from methods.helpers import TRAIN, WARMUP, accuracy, make_method, make_tiny, run_epochs
from reference import rivals
from reference import training as oracle


def unit_rows(values: torch.Tensor) -> np.ndarray:
    rows = values.detach().double().numpy()
    return rows / np.sqrt((rows**2).sum(1, keepdims=True))


@pytest.mark.parametrize("restart", [False, True])
def test_soft_labels_and_prototypes(restart):
    tiny = make_tiny(noise=0.3)
    tiny.context.labels[50:60] = -1
    method = make_method(
        "rrl", tiny, first_stage=2, neighbours=9, low=0.4, high=0.8, restart_soft=restart
    )
    assert isinstance(method, Rrl)
    run_epochs(method, tiny, 1, 2)
    rows = tiny.context.rows
    labels = tiny.context.labels[rows].tolist()
    soft = None
    for epoch in (3, 4):  # the first cleaning starts from predictions, the second from the first
        with torch.no_grad():
            method.begin_epoch(epoch)
        seen = tiny.context.predict(method.network, rows)
        units, probs = unit_rows(method.head(seen.features)), seen.probs.double().numpy()
        soft = rivals.keep_given(probs, labels, 0.4) if soft is None or restart else soft
        soft = rivals.keep_given((rivals.soft_votes(units, soft, 9, 0.3) + probs) / 2, labels, 0.4)
        np.testing.assert_allclose(method.soft[rows].numpy(), soft, atol=1e-5)
        clean = [max(row) > 0.8 for row in soft]
        assert method.clean[rows].tolist() == clean
        assert method.labels[rows].tolist() == soft.argmax(1).tolist()
        for c in range(3):
            chosen = [i for i, row in enumerate(soft) if clean[i] and row.argmax() == c]
            mean = units[chosen].mean(0)
            expected = mean / np.sqrt(sum(mean**2))
            np.testing.assert_allclose(method.prototypes[c].numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("any_clean", [True, False])
def test_losses_of_a_step(any_clean):
    tiny = make_tiny()
    method = make_method("rrl", tiny, prototype_weight=5, prototype_ramp=8)
    assert isinstance(method, Rrl)
    run_epochs(method, tiny, 1, 1)
    with torch.no_grad():
        method.begin_epoch(3)
    rows = torch.arange(6, 18)
    method.clean[rows] = any_clean & (torch.arange(12) % 3 > 0)
    method.labels[rows] = torch.arange(12) % 2
    batch = tiny.batch({TRAIN: rows})
    generator = copy.deepcopy(tiny.context.generator)
    losses = {name: value.item() for name, value in method(batch).items()}

    views, part = tiny.context.views, batch[TRAIN]
    weak, strong = part.view(views.weak, generator), part.view(views.strong, generator)
    clean, labels = method.clean[rows].tolist(), method.labels[rows].tolist()
    first, second = method.network(weak), method.network(strong)
    units = [unit_rows(method.head(seen.features)) for seen in (first, second)]
    contrast = rivals.pair_contrast(units[0], units[1], 0.3, both=False)
    assert losses["instance"] == pytest.approx(contrast, rel=1e-4)
    error = 0.0
    layers = [*method.head.parameters(), *method.decoder.parameters()]
    matrices = [x.detach().double().numpy() for x in layers]
    for seen in (first, second):  # from the projection before it is normalised
        v = seen.features.detach().double().numpy()
        rebuilt = np.maximum((v @ matrices[0].T + matrices[1]) @ matrices[2].T + matrices[3], 0)
        error += ((rebuilt - v) ** 2).mean()
    assert losses["reconstruction"] == pytest.approx(error, rel=1e-4)
    if not any_clean:
        assert losses["clean"] == losses["prototype"] == 0
        return
    chosen = [i for i in range(12) if clean[i]]
    hot = oracle.hot(labels, 3)
    logits = first.logits.detach().double().numpy()[chosen]
    assert losses["clean"] == pytest.approx(oracle.cross_entropy(logits, hot[chosen]), abs=1e-5)
    # Mixed among clean rows of both views; lambda may be below one half.
    keep = draw_mix(24, 8.0, generator, tiny.context.ranks, own_side=False).keep
    places = [*chosen, *(12 + i for i in chosen)]
    order = torch.randperm(16, generator=generator).tolist()
    inputs = torch.cat([weak, strong]).double().numpy()[places]
    inputs = oracle.mixed(inputs, keep, order)
    targets = oracle.mixed(np.concatenate([hot, hot])[places], keep, order)
    z = unit_rows(method.head(method.network(torch.from_numpy(inputs).float()).features))
    scores = z @ method.prototypes.double().numpy().T / 0.3
    # w_proto rises from 1 to 5 over 8 epochs: it is 2 in the third.
    expected = 2 * oracle.cross_entropy(scores, targets)
    assert losses["prototype"] == pytest.approx(expected, abs=1e-4)


def test_warmup_is_cross_entropy_and_reconstruction():
    tiny = make_tiny(weak_noise=0.0)
    method = make_method("rrl", tiny)
    batch = tiny.batch({WARMUP: torch.arange(6, 18)})
    assert {stream for step in method.steps(1) for stream in step} == {WARMUP}
    losses = method(batch)
    assert set(losses) == {"warmup", "reconstruction"}
    plain = tiny.context.predict(method.network, torch.arange(6, 18)).logits
    hot = oracle.hot(batch[WARMUP].labels.tolist(), 3)
    expected = oracle.cross_entropy(plain.double().numpy(), hot)
    assert losses["warmup"].item() == pytest.approx(expected, abs=1e-5)


def test_learns_and_judges():
    tiny = make_tiny(noise=0.3)
    tiny.context.labels[50:60] = -1
    method = make_method("rrl", tiny, first_stage=8, neighbours=20, low=0.3, high=0.7)
    assert method.split() is None
    run_epochs(method, tiny, 1, 12)
    assert accuracy(method, tiny) > 0.9
    with torch.no_grad():
        split, found = method.split(), method.judge()
    assert split is not None
    assert not bool(split.clean[50:60].any())
    is_right = tiny.context.labels == tiny.truth
    assert float(found.scores[is_right].mean()) > 0.8 > 0.4 > float(found.scores[~is_right].mean())
