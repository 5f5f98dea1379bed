"""Early learning regularisation: a running target for each sample, and the loss that holds to it.

    t_i <- beta t_i + (1 - beta) p_i,        R = (1/B) sum_i log(1 - <t_i, p_i>)

R falls as a prediction agrees with what the network used to say of the sample, so its gradient
outweighs that of a wrong label. t starts at zero and is updated before the loss is taken.
"""

from __future__ import annotations

import torch
from torch import Tensor

from csot.methods._ranks import Ranks

CLIP = 1e-4
"""Predictions stay so far from 0 and 1, lest R is infinite."""


def clipped_probs(logits: Tensor) -> Tensor:
    return logits.float().softmax(-1).clamp(CLIP, 1 - CLIP)


@torch.no_grad()
def remember(targets: Tensor, rows: Tensor, probs: Tensor, momentum: float, ranks: Ranks) -> Tensor:
    """Update (N, C) targets in place by the rows of all processes; returns those of `rows`."""
    everyone = ranks.gather(rows)
    targets[everyone] = momentum * targets[everyone] + (1 - momentum) * ranks.gather(probs)
    return targets[rows]


def regulariser(logits: Tensor, targets: Tensor) -> Tensor:
    """R; the targets are constants."""
    agreement = (targets * clipped_probs(logits)).sum(-1)
    return (1 - agreement).log().mean()


def target_posterior(targets: Tensor, probs: Tensor) -> Tensor:
    """(N, C) targets, normalised; where nothing has been remembered, the prediction."""
    mass = targets.sum(-1, keepdim=True)
    return torch.where(mass > 0, targets / mass.clamp(min=torch.finfo(mass.dtype).tiny), probs)
