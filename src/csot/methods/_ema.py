"""An average of a network's weights over the steps: a_t = d a_{t-1} + (1 - d) w_t."""

from __future__ import annotations

import copy
import math

import torch
from torch import nn


def averaged(network: nn.Module) -> nn.Module:
    """A copy that no optimiser touches."""
    return copy.deepcopy(network).requires_grad_(False)


@torch.no_grad()
def follow(average: nn.Module, network: nn.Module, decay: float) -> None:
    """One step. Parameters only: statistics of normalisation are each network's own."""
    for mean, weight in zip(average.parameters(), network.parameters(), strict=True):
        mean.lerp_(weight, 1 - decay)


def sigmoid_ramp(step: float, length: float) -> float:
    """exp(-5 (1 - step/length)^2), from nearly 0 up to 1; no length, no ramp."""
    share = min(max(step / length, 0.0), 1.0) if length > 0 else 1.0
    return math.exp(-5 * (1 - share) ** 2)
