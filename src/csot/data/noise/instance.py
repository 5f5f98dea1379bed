"""Instance-dependent noise: the input says how likely a row is mislabelled, and as what.

Xia et al., Part-dependent label noise, NeurIPS 2020, algorithm 2. With x the standardised input and
y its class:

    q ~ N(r, 0.1^2) within [0, 1]            how likely this row is to be mislabelled
    W_y ~ N(0, 1), (D, C)                    one projection for each class
    p = q softmax(x W_y without column y)    p_y = 1 - q
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from csot.data.noise.base import Noise, percent
from csot.data.samples import Samples
from csot.data.types import TrainingData

DEVIATION = 0.1
ROWS = 1024
"""Inputs held at once: images may be on disk."""


@dataclass(frozen=True)
class InstanceDependent(Noise):
    """About r of the labels change."""

    rate: float

    def describe(self) -> str:
        return f"instance-dependent, {percent(self.rate)} on average"

    def _draw(
        self, labels: Tensor, rows: Tensor, data: TrainingData, generator: torch.Generator
    ) -> Tensor:
        n, classes = len(labels), len(data.class_names)
        rates = truncated_normal(n, self.rate, generator)
        draws = torch.rand(n, generator=generator, dtype=torch.float64)
        shift, scale = _standardise(data)
        after = labels.clone()
        for c in range(classes):
            # One class at a time: all projections of large images would not fit in memory.
            weights = torch.randn(shift.numel(), classes, generator=generator).double()
            for part in torch.split((labels == c).nonzero()[:, 0], ROWS):
                x = (data.train.batch(rows[part]).flatten(1) - shift) / scale
                # In float64, so that other threads or machines hardly ever draw another label.
                logits = x.double() @ weights
                logits[:, c] = -torch.inf
                wrong = rates[part, None] * logits.softmax(1)
                after[part] = _pick(wrong, draws[part], c)
        return after


def truncated_normal(n: int, mean: float, generator: torch.Generator) -> Tensor:
    """N(mean, 0.1^2) within [0, 1], by the inverse of its distribution function."""
    bounds = (torch.tensor([0.0, 1.0], dtype=torch.float64) - mean) / DEVIATION
    low, high = torch.special.ndtr(bounds)
    draws = torch.rand(n, generator=generator, dtype=torch.float64)
    normal: Tensor = torch.special.ndtri(low + draws * (high - low))
    return (mean + DEVIATION * normal).clamp(0, 1)


def _pick(wrong: Tensor, draws: Tensor, own: int) -> Tensor:
    """The class on whose share of [0, 1) the draw falls; the rest belongs to `own`."""
    shares = wrong.cumsum(1)
    chosen = (shares <= draws[:, None]).sum(1)
    return torch.where(draws < shares[:, -1], chosen, own)


def _standardise(data: TrainingData) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each number of an input, (D,): by channel, or by feature."""
    if data.train.kind == "images":
        channels, height, width = data.train.shape
        mean = 255 * torch.tensor(data.mean or (0.5,) * channels)
        std = 255 * torch.tensor(data.std or (0.25,) * channels)
        return mean.repeat_interleave(height * width), std.repeat_interleave(height * width)
    return _moments(data.train)


def _moments(features: Samples) -> tuple[Tensor, Tensor]:
    total = torch.zeros(2, *features.shape, dtype=torch.float64)
    for part in torch.split(torch.arange(len(features)), ROWS):
        x = features.batch(part).double()
        total += torch.stack([x.sum(0), x.square().sum(0)])
    mean, square = total / len(features)
    std = (square - mean.square()).clamp(min=0).sqrt()
    return mean.float(), torch.where(std > 0, std, 1.0).float()
