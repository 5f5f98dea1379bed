"""Early learning regularisation: running targets, their loss, and averaged weights.

    t_i <- beta t_i + (1 - beta) p_i,        R = (1/B) sum_i log(1 - <t_i, p_i>)

R falls as a prediction agrees with what the network used to predict for the sample, so its gradient
outweighs that of a wrong label. t starts at zero and is updated before the loss is taken.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from csot._core.ranks import Ranks

CLIP = 1e-4
"""Distance of predictions from 0 and 1; avoids log(0) in R."""


def clipped_probs(logits: Tensor) -> Tensor:
    return logits.float().softmax(-1).clamp(CLIP, 1 - CLIP)


@torch.no_grad()
def remember(targets: Tensor, rows: Tensor, probs: Tensor, momentum: float, ranks: Ranks) -> Tensor:
    """Update (N, C) targets in place by the rows of all processes; returns those of `rows`."""
    gathered = ranks.gather(rows)
    targets[gathered] = momentum * targets[gathered] + (1 - momentum) * ranks.gather(probs)
    return targets[rows]


def regulariser(logits: Tensor, targets: Tensor) -> Tensor:
    """R; the targets are constants."""
    agreement = (targets * clipped_probs(logits)).sum(-1)
    return (1 - agreement).log().mean()


def target_posterior(targets: Tensor, probs: Tensor) -> Tensor:
    """(N, C) targets, normalised; where there is none yet, the prediction."""
    mass = targets.sum(-1, keepdim=True)
    return torch.where(mass > 0, targets / mass.clamp(min=torch.finfo(mass.dtype).tiny), probs)


def averaged(network: nn.Module) -> nn.Module:
    """A copy of a network that no optimiser updates."""
    return copy.deepcopy(network).requires_grad_(False)


@torch.no_grad()
def follow(average: nn.Module, network: nn.Module, decay: float) -> None:
    """One step of a_t = d a_{t-1} + (1 - d) w_t, for parameters only.

    Each network keeps its own batch statistics.
    """
    for mean, weight in zip(average.parameters(), network.parameters(), strict=True):
        mean.lerp_(weight, 1 - decay)


def sigmoid_ramp(step: float, length: float) -> float:
    """exp(-5 (1 - step/length)^2), from nearly 0 up to 1; always 1 for length 0."""
    share = min(max(step / length, 0.0), 1.0) if length > 0 else 1.0
    return math.exp(-5 * (1 - share) ** 2)
