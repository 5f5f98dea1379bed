"""Nearest neighbours by cosine, their votes about labels, and labels propagated on their graph."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from csot._core.ranks import Ranks
from csot.methods.core.contract import Judgement, Predictions, label_probs
from csot.methods.parts.losses import one_hot

BLOCK = 4096
"""Rows whose similarities to all others are held at once."""


def nearest_others(features: Tensor, count: int) -> Tensor:
    """(N, F) -> (N, count): positions of each row's nearest among the other rows."""
    units = F.normalize(features.float(), dim=-1)
    found = []
    for start in range(0, len(units), BLOCK):
        cosines = units[start : start + BLOCK] @ units.T
        cosines.diagonal(start).fill_(-torch.inf)
        found.append(cosines.topk(min(count, len(units) - 1), dim=-1).indices)
    return torch.cat(found)


def nearest_among(queries: Tensor, keys: Tensor, count: int) -> Tensor:
    """(n, F) and (N, F) -> (n, count): positions in `keys` of each query's nearest."""
    units = F.normalize(keys.float(), dim=-1)
    found = [
        (block @ units.T).topk(min(count, len(units)), dim=-1).indices
        for block in torch.split(F.normalize(queries.float(), dim=-1), BLOCK)
    ]
    return torch.cat(found)


# Votes of neighbours about labels, and what becomes of the given ones.

VOTE_ROWS = 512
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
    for start in range(0, len(units), VOTE_ROWS):
        rows, nearest = units[start : start + VOTE_ROWS], neighbours[start : start + VOTE_ROWS]
        cosines = torch.einsum("bd,bkd->bk", rows, units[nearest])
        weights = (cosines / temperature).softmax(-1)
        found.append(torch.einsum("bk,bkc->bc", weights, targets[nearest]))
    return torch.cat(found)


def keep_given(soft: Tensor, labels: Tensor, low: float) -> Tensor:
    """(n, C): one-hot vectors of the given labels where these have more than `low`."""
    kept = (label_probs(soft, labels) > low) & (labels >= 0)
    return torch.where(kept[:, None], one_hot(labels, soft.shape[-1]).to(soft), soft)


# Labels on a graph of nearest neighbours: propagation, and connected components.

POWER = 3
"""Edges weigh cos^3; negative cosines count as 0."""
ITERATIONS = 30
"""The error halves in each: 30 leave 1e-9 of it."""


def propagate(embeddings: Tensor, neighbours: Tensor, seeds: Tensor) -> Tensor:
    """(N, C) solution of (I - W/2) Z = Y, each row divided by its sum.

    W = D^(-1/2) (A + A') D^(-1/2), with A_ij = cos^3 for the neighbours j of i and D the sums of
    the rows of A + A'; Y are the seeds (N, C), each column divided by its sum. An empty row of Z
    becomes uniform.
    """
    units = F.normalize(embeddings.float(), dim=-1)
    cosines = torch.stack([(units * units[column]).sum(-1) for column in neighbours.T], 1)
    weights = cosines.clamp(min=0).double().pow(POWER)
    graph = _adjacency(neighbours, weights)
    graph = graph + graph.T
    degrees = np.asarray(graph.sum(1)).ravel()
    scale = diags_array(1 / np.sqrt(np.where(degrees > 0, degrees, 1)))
    step = (scale @ graph @ scale) / 2
    start = (seeds.double() / seeds.double().sum(0).clamp(min=1e-30)).cpu().numpy()
    found = start
    for _ in range(ITERATIONS):
        found = start + step @ found
    result = torch.from_numpy(found).to(seeds.device)
    total = result.sum(-1, keepdim=True)
    result = torch.where(total > 0, result / total.clamp(min=1e-300), 1 / seeds.shape[-1])
    return result.to(seeds)


def largest_components(neighbours: Tensor, labels: Tensor, chosen: Tensor) -> Tensor:
    """(N,) bool: the largest connected component of the chosen rows of each label.

    Two rows are connected if each is among the neighbours of the other.
    """
    graph = _adjacency(neighbours, torch.ones_like(neighbours, dtype=torch.double))
    mutual = graph.multiply(graph.T).tocsr()
    kept = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels[chosen].bincount().nonzero()[:, 0]:
        rows = ((labels == label) & chosen).cpu().nonzero()[:, 0]
        inside = mutual[rows.numpy()][:, rows.numpy()]
        numbers = torch.from_numpy(connected_components(inside, directed=False)[1])
        kept[rows[numbers == numbers.bincount().argmax()]] = True
    return kept.to(chosen.device)


def _adjacency(neighbours: Tensor, weights: Tensor) -> csr_array:
    count, each = neighbours.shape
    starts = np.arange(0, count * each + 1, each)
    columns = neighbours.cpu().numpy().ravel()
    return csr_array((weights.cpu().numpy().ravel(), columns, starts), shape=(count, count))


def judge_by_votes(votes: Tensor, seen: Predictions, labels: Tensor, ranks: Ranks) -> Judgement:
    """Take votes (N, C), whose rows sum to 1, as the posterior.

    A verdict is relied on where the network predicts the class that wins the vote.
    """
    posterior = ranks.from_first(votes)
    agreed = posterior.argmax(-1) == seen.logits.argmax(-1)
    return Judgement(
        posterior=posterior,
        trusted=ranks.from_first(agreed),
        scores=label_probs(posterior, labels),
        features=seen.features,
    )
