"""MLNT against its description: perturbed labels, and a step on a copy of the network."""

import copy

import numpy as np
import pytest
import torch

from csot.methods.mlnt import Mlnt, perturb
from csot.methods.parts.neighbours import nearest_others
from methods.helpers import TRAIN, WARMUP, accuracy, make_method, make_tiny, run_epochs
from reference import rivals
from reference import training as oracle


def test_perturbed_labels_come_from_neighbours():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(30, 4, generator=generator)
    neighbours = nearest_others(features, 3)
    labels = torch.arange(30)  # each row has its own, which tells where a label comes from
    for _ in range(5):
        found = perturb(labels, neighbours, 12, generator).tolist()
        changed = [i for i in range(30) if found[i] != i]
        assert len(changed) == 12
        assert all(found[i] in rivals.nearest(features.double().numpy(), i, 4) for i in changed)
    assert perturb(labels, neighbours, 0, generator).tolist() == labels.tolist()


def test_losses_and_gradient_of_a_step():
    tiny = make_tiny(epochs=4)
    tiny.context.labels[8] = -1
    method = make_method("mlnt", tiny, warmup=1, perturbations=3, ramp_steps=0, meta_rate=0.5)
    assert isinstance(method, Mlnt)
    run_epochs(method, tiny, 1, 2)
    batch = tiny.batch({TRAIN: torch.arange(6, 18)})
    part = batch[TRAIN]
    generator = copy.deepcopy(tiny.context.generator)
    losses = method(batch)
    sum(losses.values()).backward()

    weak = part.view(tiny.context.views.weak, generator)
    neighbours = nearest_others(method.guide(weak).features, 10)
    target = oracle.softmax(method.teacher(weak).logits.double().numpy())
    plain = copy.deepcopy(method.network)
    plain.zero_grad()

    def class_loss(network, labels):
        logs = network(weak).logits.log_softmax(-1)
        return -sum(logs[i, int(y)] for i, y in enumerate(labels) if y >= 0) / 12

    expected = {name: torch.zeros_like(value) for name, value in plain.named_parameters()}
    consistency = 0.0
    for _ in range(3):
        labels = perturb(part.labels, neighbours, 6, generator)
        moved = copy.deepcopy(plain)
        class_loss(moved, labels).backward()
        with torch.no_grad():
            for value in moved.parameters():
                value -= 0.5 * value.grad
        moved.zero_grad()
        logits = moved(weak).logits
        probs = oracle.softmax(logits.detach().double().numpy())
        consistency += (target * np.log(target / probs)).sum() / (12 * 3) / 3
        cross = -(torch.from_numpy(target).float() * logits.log_softmax(-1)).sum() / (12 * 3) / 3
        cross.backward()
        for name, value in moved.named_parameters():
            expected[name] += value.grad
    assert losses["consistency"].item() == pytest.approx(consistency, abs=1e-5)
    loss = class_loss(plain, part.labels)
    assert losses["cross_entropy"].item() == pytest.approx(loss.item(), abs=1e-5)
    loss.backward()
    for name, value in plain.named_parameters():
        found = method.network.get_parameter(name).grad
        torch.testing.assert_close(found, expected[name] + value.grad, atol=1e-5, rtol=1e-4)


def test_teacher_and_weight_follow_the_steps():
    tiny = make_tiny(epochs=4)
    method = make_method("mlnt", tiny, warmup=1, perturbations=1, ramp_steps=12)
    assert isinstance(method, Mlnt)
    run_epochs(method, tiny, 1, 1)
    assert int(method.steps_taken) == 0
    assert {stream for step in method.steps(1) for stream in step} == {WARMUP}
    method.begin_epoch(2)
    assert torch.equal(method.teacher.classifier.weight, method.network.classifier.weight)
    expected = method.network.classifier.weight.detach().clone()
    for step in range(14):
        assert method._weight() == pytest.approx(np.exp(-5 * (1 - min(1, step / 12)) ** 2))
        with torch.no_grad():
            method.network.classifier.weight += 1
        method.after_step(tiny.batch({TRAIN: torch.arange(6, 18)}))
        keep = 0.99 if step < 12 else 0.999
        expected = keep * expected + (1 - keep) * method.network.classifier.weight.detach()
    torch.testing.assert_close(method.teacher.classifier.weight, expected)


def test_learns():
    tiny = make_tiny(noise=0.3, epochs=8)
    tiny.context.labels[50:60] = -1
    method = make_method("mlnt", tiny, warmup=2, perturbations=2, ramp_steps=20)
    run_epochs(method, tiny, 1, 8)
    assert accuracy(method, tiny) > 0.9
    assert bool(torch.isfinite(method.judge().posterior).all())
