"""The estimated noise rate, against a slow count and on predictions whose noise is known."""

import pytest
import torch

from csot.methods.parts.small_loss import MEMORY, NoiseRate, estimate_noise_rate


def slow_confident_joint(probs: list[list[float]], labels: list[int]) -> float:
    """Row by row, from the description; cleanlab's calibration of each line to its size."""
    classes = range(len(probs[0]))
    of = {k: [i for i, y in enumerate(labels) if y == k] for k in classes}
    threshold = {
        k: sum(probs[i][k] for i in of[k]) / len(of[k]) if of[k] else float("inf") for k in classes
    }
    wrong = 0.0
    for y in classes:
        sure = []
        for i in of[y]:
            fitting = [k for k in classes if probs[i][k] >= threshold[k]]
            if fitting:
                sure.append(max(fitting, key=lambda k: probs[i][k]))
        if sure:
            wrong += len(of[y]) * sum(k != y for k in sure) / len(sure)
    return wrong / sum(len(rows) for rows in of.values())


@pytest.mark.parametrize("seed", range(5))
def test_estimate_is_the_confident_joint(seed):
    generator = torch.Generator().manual_seed(seed)
    probs = (2 * torch.randn(60, 4, generator=generator)).softmax(-1)
    # The last class has no label, and some rows have none either.
    labels = torch.randint(-1, 3, (60,), generator=generator)
    expected = slow_confident_joint(probs.tolist(), labels.tolist())
    assert estimate_noise_rate(probs, labels) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
def test_planted_noise_is_found(rate):
    """Calibrated predictions of noisy labels: p = (1 - r) onehot(truth) + r / (C - 1) elsewhere."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.arange(3000) % 5
    wrong = torch.rand(3000, generator=generator) < rate
    labels = torch.where(
        wrong, (truth + torch.randint(1, 5, (3000,), generator=generator)) % 5, truth
    )
    logits = torch.full((3000, 5), rate / 4 + 1e-3).log()
    logits[torch.arange(3000), truth] = torch.tensor(1 - rate).log()
    probs = (logits + 0.3 * torch.randn(3000, 5, generator=generator)).softmax(-1)
    assert estimate_noise_rate(probs, labels) == pytest.approx(rate, abs=0.05)


def test_no_label_no_noise():
    assert estimate_noise_rate(torch.eye(3), torch.full((3,), -1)) == 0.0


def test_a_known_rate_is_taken_and_nothing_is_stored():
    noise = NoiseRate(torch.tensor([0, 1]), 2, known=0.3)
    noise.update(torch.eye(2))
    assert noise.read() == pytest.approx(0.3)
    assert noise.mean.numel() == 0


def test_updates_are_averaged_and_survive_a_checkpoint():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (40,), generator=generator)
    epochs = [torch.randn(40, 3, generator=generator).softmax(-1) for _ in range(3)]
    noise, mean = NoiseRate(labels, 3, None), epochs[0]
    noise.update(epochs[0])
    assert noise.read() == pytest.approx(estimate_noise_rate(mean, labels))
    noise.update(epochs[1])
    other = NoiseRate(labels, 3, None)
    other.load_state_dict(noise.state_dict())
    other.update(epochs[2])
    for probs in epochs[1:]:
        mean = MEMORY * mean + (1 - MEMORY) * probs
    torch.testing.assert_close(other.mean, mean)
    assert other.read() == pytest.approx(estimate_noise_rate(mean, labels))
