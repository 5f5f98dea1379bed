"""Symmetric noise: chosen rows get a label uniformly at random."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from csot.data.noise.base import Noise, percent, whole
from csot.data.types import TrainingData


@dataclass(frozen=True)
class Symmetric(Noise):
    """By default as DivideMix and CSOT: exactly int(rN) rows, uniform over all C classes.

    The new label may be the old one, so that r (C - 1) / C of the labels change. With
    `exclude_true` it never is, and r of them change. With `bernoulli` each row is chosen with
    probability r, by itself.
    """

    rate: float
    exclude_true: bool = False
    bernoulli: bool = False

    def describe(self) -> str:
        chosen = f"each row with {percent(self.rate)}" if self.bernoulli else percent(self.rate)
        over = "the other classes" if self.exclude_true else "all classes, its own included"
        return f"symmetric, {chosen}, uniform over {over}"

    def _draw(
        self, labels: Tensor, rows: Tensor, data: TrainingData, generator: torch.Generator
    ) -> Tensor:
        n, classes = len(labels), len(data.class_names)
        chosen = choose(n, self.rate, self.bernoulli, generator)
        after = labels.clone()
        if self.exclude_true:
            step = torch.randint(1, classes, chosen.shape, generator=generator)
            after[chosen] = (labels[chosen] + step) % classes
        else:
            after[chosen] = torch.randint(0, classes, chosen.shape, generator=generator)
        return after


def choose(n: int, rate: float, bernoulli: bool, generator: torch.Generator) -> Tensor:
    """Row numbers: each with probability `rate`, or exactly int(rate n) of them."""
    if bernoulli:
        return (torch.rand(n, generator=generator, dtype=torch.float64) < rate).nonzero()[:, 0]
    return torch.randperm(n, generator=generator)[: whole(rate, n)]
