"""PENCIL against its description: losses by loops, the label step by finite differences."""

import math

import pytest
import torch

from csot.methods import Role
from csot.methods.pencil import Pencil
from methods.helpers import TRAIN, accuracy, make_method, make_tiny, run_epochs


def softmax(values: list[float]) -> list[float]:
    exps = [math.exp(value - max(values)) for value in values]
    return [value / sum(exps) for value in exps]


def slow_loss(
    logits: list[list[float]],
    z: list[list[float]],
    labels: list[int],
    alpha: float,
    beta: float,
    *,
    twice: bool,
) -> float:
    """KL(p, q) / C + alpha CE(q, y) + beta H(p) / C, entry by entry."""
    classes, total = len(z[0]), 0.0
    for row, label_row, label in zip(logits, z, labels, strict=True):
        p, q = softmax(row), softmax(label_row)
        for k in range(classes):
            total += p[k] * (math.log(p[k]) - math.log(q[k])) / classes
            total -= beta * p[k] * math.log(p[k]) / classes
        if label >= 0:
            total -= alpha * math.log((softmax(q) if twice else q)[label])
    return total / len(labels)


@pytest.mark.parametrize("on", ["distribution", "logits"])
def test_loss_and_label_step(on):
    tiny = make_tiny(weak_noise=0.0)
    tiny.context.labels[12] = -1
    settings = {"compatibility": 0.3, "entropy": 0.2, "label_rate": 50.0, "start": 2.0}
    method = make_method("pencil", tiny, compatibility_on=on, **settings)
    assert isinstance(method, Pencil)
    rows = torch.arange(10, 16)
    batch = tiny.batch({TRAIN: rows})
    losses = method(batch)
    logits = method.network(tiny.inputs[rows]).logits.tolist()
    labels = tiny.context.labels[rows].tolist()
    start = [[2.0 * (k == label) for k in range(3)] for label in labels]

    def loss(z: list[list[float]]) -> float:
        return slow_loss(logits, z, labels, 0.3, 0.2, twice=on == "logits")

    total = float(torch.stack(list(losses.values())).sum().detach())
    assert total == pytest.approx(loss(start), rel=1e-5)
    before = method.label_logits.clone()
    method.after_step(batch)
    for i, row in enumerate(rows.tolist()):
        for k in range(3):
            sides = []
            for step in (1e-5, -1e-5):
                z = [list(values) for values in start]
                z[i][k] += step
                sides.append(loss(z))
            gradient = (sides[0] - sides[1]) / 2e-5
            moved = float(method.label_logits[row, k])
            assert moved == pytest.approx(start[i][k] - 50.0 * gradient, abs=1e-4)
    others = torch.ones(len(before), dtype=torch.bool)
    others[rows] = False
    assert torch.equal(method.label_logits[others], before[others])


def test_the_network_feels_kl_and_entropy_only():
    """dL/dlogits by autograd, against KL(p, q) / C + beta H(p) / C written out in float64."""
    tiny = make_tiny(weak_noise=0.0)
    method = make_method("pencil", tiny, compatibility=5.0, entropy=0.2)
    assert isinstance(method, Pencil)
    rows = torch.arange(10, 16)
    torch.stack(list(method(tiny.batch({TRAIN: rows})).values())).sum().backward()
    found = method.network.classifier.bias.grad
    p = method.network(tiny.inputs[rows]).logits.detach().double().softmax(-1)
    q = method.label_logits[rows].double().softmax(-1)
    score = p.log() - q.log() - 0.2 * p.log()
    expected = (p * (score - (p * score).sum(-1, keepdim=True))).mean(0) / 3
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-4)


def test_stages():
    tiny = make_tiny(epochs=9)
    method = make_method("pencil", tiny, first_stage=1, second_stage=2, final_rate=0.2)
    assert isinstance(method, Pencil)
    roles = [{s.role for step in method.steps(epoch) for s in step} for epoch in range(1, 10)]
    assert roles == [{Role.WARMUP}, {Role.TRAIN}, {Role.TRAIN}, *[{Role.FINETUNE}] * 6]
    rates = []
    for epoch in range(1, 10):
        group = {"lr": 0.06}
        method.update_param_group(epoch, group)
        rates.append(group["lr"])
    assert rates == pytest.approx([0.06, 0.06, 0.06, 0.2, 0.2, 0.02, 0.02, 0.002, 0.002])
    start = method.label_logits.clone()
    run_epochs(method, tiny, 1, 1)
    assert method.split() is None
    assert torch.equal(method.label_logits, start)
    run_epochs(method, tiny, 2, 3)
    learned = method.label_logits.clone()
    assert not torch.equal(learned, start)
    # Rows held out have no learned label.
    assert torch.equal(learned[:6], start[:6])
    run_epochs(method, tiny, 4, 4)
    assert torch.equal(method.label_logits, learned)


def test_no_final_rate_leaves_the_schedule_alone():
    method = make_method("pencil", make_tiny(), first_stage=0, second_stage=1, final_rate=None)
    group = {"lr": 0.06}
    method.update_param_group(3, group)
    assert group == {"lr": 0.06}


def test_wrong_labels_are_replaced_and_state_survives_a_checkpoint():
    tiny = make_tiny(rows=300, noise=0.25, epochs=16)
    settings = {
        "first_stage": 4,
        "second_stage": 10,
        "compatibility": 0.02,
        "label_rate": 100.0,
        "final_rate": None,
    }
    method = make_method("pencil", tiny, **settings)
    assert isinstance(method, Pencil)
    run_epochs(method, tiny, 1, 16)
    assert accuracy(method, tiny) > 0.85
    split, rows = method.split(), tiny.context.rows
    assert split is not None
    given_right = (tiny.context.labels == tiny.truth)[rows].float().mean()
    learned_right = (split.labels == tiny.truth)[rows].float().mean()
    assert float(learned_right) > float(given_right) + 0.1
    verdict = method.judge()
    torch.testing.assert_close(verdict.posterior[rows], method.label_logits[rows].softmax(-1))
    held = tiny.context.predict(method.network, torch.arange(6)).probs
    torch.testing.assert_close(verdict.posterior[:6], held)
    other = make_method("pencil", tiny, **settings)
    other.load_state_dict(method.state_dict())
    torch.testing.assert_close(other.judge().posterior, verdict.posterior)
