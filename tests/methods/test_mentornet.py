"""MentorNet's predefined curriculum against its description."""

import copy

import numpy as np
import pytest
import torch

from csot.methods.mentornet import MentorNet, MentorNetSettings, curriculum_weights, percentile
from methods.helpers import TRAIN, accuracy, make_method, make_tiny, run_epochs
from reference import rivals
from reference import training as oracle


@pytest.mark.parametrize("percent", [0.0, 18.0, 19.0, 90.0, 91.0, 99.0])
def test_weights_by_phase(percent):
    losses = [0.0, 0.7, 1.0, 1.2, 1.9, 2.0, 5.0]
    found = curriculum_weights(
        torch.tensor(losses), torch.tensor(1.0), percent, MentorNetSettings()
    )
    expected = [rivals.mentor_weight(value, 1.0, percent) for value in losses]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("share", [0.5, 0.7, 1.0])
def test_percentile_is_one_of_the_losses(share):
    losses = torch.randperm(11, generator=torch.Generator().manual_seed(0)).float()
    assert percentile(losses, share).item() == round(share * 10)


def test_threshold_is_a_moving_average_and_weights_follow_it():
    tiny = make_tiny(weak_noise=0.0, epochs=10)
    method = make_method("mentornet", tiny, dropout=0.25)
    assert isinstance(method, MentorNet)
    average = 0.0
    for epoch, rows in ((5, torch.arange(6, 18)), (6, torch.arange(30, 42))):
        method.begin_epoch(epoch)
        generator = copy.deepcopy(tiny.context.generator)
        batch = tiny.batch({TRAIN: rows})
        loss = method(batch)["weighted"].item()
        logits = method.network(batch[TRAIN].view(tiny.context.views.weak, generator)).logits
        logits = logits.detach().double().numpy()
        labels = batch[TRAIN].labels.tolist()
        losses = [
            oracle.cross_entropy(logits[i : i + 1], oracle.hot([label], 3))
            for i, label in enumerate(labels)
        ]
        # Of twelve losses, the one nearest to position 0.7 * 11.
        average = 0.5 * average + 0.5 * sorted(losses)[8]
        assert method.threshold.item() == pytest.approx(average, abs=1e-5)
        weights = [float(value <= average) for value in losses]
        assert method.weights[rows].tolist() == weights
        order = torch.randperm(12, generator=generator).tolist()
        kept = [
            value * weight
            for value, weight, place in zip(losses, weights, order, strict=True)
            if place < 9
        ]
        assert loss == pytest.approx(sum(kept) / 12, abs=1e-5)


def test_learns_and_splits():
    tiny = make_tiny(noise=0.3, epochs=10)
    tiny.context.labels[50:60] = -1
    method = make_method("mentornet", tiny)
    assert method.split() is None
    run_epochs(method, tiny, 1, 10)
    assert accuracy(method, tiny) > 0.9
    split = method.split()
    assert split is not None
    assert not bool(split.clean[50:60].any())
    assert not bool(split.corrected.any())
    right = (tiny.context.labels == tiny.truth)[split.clean].float().mean()
    assert float(right) > 0.85
