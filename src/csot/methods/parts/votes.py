"""Votes of neighbours about labels, and what becomes of the given ones."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from csot._core.neighbours import nearest_others
from csot.methods.core.contract import label_probs
from csot.methods.parts.losses import one_hot

BLOCK = 512
"""Rows whose neighbours' targets are held at once."""


def neighbour_votes(
    labels: Tensor, neighbours: Tensor, classes: int, weights: Tensor | None = None
) -> Tensor:
    """(n, C) votes: sum over the neighbours j of row i of w_ij onehot(y_j), divided by sum_j w_ij.

    Parameters
    ----------
    labels : Tensor of shape (N,)
        Labels of the voters; one with -1 has no vote, but its weight is part of the divisor.
    neighbours : Tensor of shape (n, k)
        Positions among the voters.
    weights : Tensor of shape (n, k), optional
        By default all ones.
    """
    ballots = labels[neighbours]
    if weights is None:
        weights = torch.ones_like(ballots, dtype=torch.float)
    votes = weights.new_zeros(len(neighbours), classes)
    votes.scatter_add_(1, ballots.clamp(min=0), weights * (ballots >= 0))
    return votes / weights.sum(-1, keepdim=True)


def soft_votes(embeddings: Tensor, targets: Tensor, count: int, temperature: float) -> Tensor:
    """(N, C) weighted mean of the targets of the `count` nearest other rows.

    The weights are exp(cos / temperature). Embeddings (N, D), targets (N, C).
    """
    units = F.normalize(embeddings.float(), dim=-1)
    found = []
    neighbours = nearest_others(units, count)
    for start in range(0, len(units), BLOCK):
        rows, nearest = units[start : start + BLOCK], neighbours[start : start + BLOCK]
        cosines = torch.einsum("bd,bkd->bk", rows, units[nearest])
        weights = (cosines / temperature).softmax(-1)
        found.append(torch.einsum("bk,bkc->bc", weights, targets[nearest]))
    return torch.cat(found)


def keep_given(soft: Tensor, labels: Tensor, low: float) -> Tensor:
    """(n, C): one-hot vectors of the given labels where these have more than `low`."""
    kept = (label_probs(soft, labels) > low) & (labels >= 0)
    return torch.where(kept[:, None], one_hot(labels, soft.shape[-1]).to(soft), soft)
