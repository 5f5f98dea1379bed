"""Votes of neighbours about a label."""

from __future__ import annotations

import torch
from torch import Tensor


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
