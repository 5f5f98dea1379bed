"""Labels on a graph of nearest neighbours: propagation, and connected components."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

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
