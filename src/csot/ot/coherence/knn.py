"""A sparse symmetric similarity: the cosine between each sample and its k nearest neighbours.

It is local, whereas the full cosine attracts samples to class centroids. The search is exact, in
blocks of rows, or by faiss if it is installed and the problem is large.
"""

from __future__ import annotations

import importlib.util

import torch
from torch import Tensor

from csot.ot.coherence.operator import MatrixSimilarity, OneHotWithin
from csot.ot.numerics import csr_matrix, inverse_or_zero

BLOCK = 4096
"""Rows whose similarities to all others are held at once: bounds the scratch memory."""

FAISS_ROWS = 20_000
"""Number of rows above which faiss is used if it is installed."""


class NeighbourGraph(OneHotWithin):
    """One sparse similarity matrix for each problem of a batch."""

    def __init__(self, graphs: list[MatrixSimilarity]) -> None:
        self._graphs = graphs

    def apply(self, x: Tensor) -> Tensor:
        parts = [graph.apply(part[None]) for graph, part in zip(self._graphs, x, strict=True)]
        return torch.cat(parts)


def neighbour_graph(features: Tensor, neighbours: int) -> NeighbourGraph:
    """S with S_ij = cos(f_i, f_j)/2 for each time one is among the other's k nearest."""
    n = features.shape[1]
    if int(neighbours) != neighbours or neighbours < 1:
        raise ValueError(f"neighbours must be a whole number of at least 1, got {neighbours!r}")
    k = min(int(neighbours), n - 1)
    return NeighbourGraph([_graph(problem, k) for problem in features])


def _graph(features: Tensor, k: int) -> MatrixSimilarity:
    n = len(features)
    norms = torch.linalg.vector_norm(features, dim=-1)
    units = features * inverse_or_zero(norms)[:, None]
    values, columns = _nearest(units, k)
    rows = torch.arange(n, device=units.device)[:, None].expand_as(columns)
    # Negative cosines are not counted, even among the k nearest.
    values = values.clamp(min=0) / 2
    first = torch.cat([rows, columns]).reshape(-1)
    second = torch.cat([columns, rows]).reshape(-1)
    # Add up the values of mutual neighbours; pairs are sorted by row, then by column.
    pairs, position = torch.unique(first * n + second, return_inverse=True)
    summed = values.new_zeros(len(pairs))
    summed.index_add_(0, position, torch.cat([values, values]).reshape(-1))
    return MatrixSimilarity(csr_matrix(pairs // n, pairs % n, summed, (n, n)))


def _nearest(units: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Cosines and indices (N, k) of each row's nearest others."""
    if len(units) >= FAISS_ROWS and importlib.util.find_spec("faiss"):
        return _nearest_by_faiss(units, k)
    found = []
    for start in range(0, len(units), BLOCK):
        block = units[start : start + BLOCK] @ units.T
        block.diagonal(start).fill_(-torch.inf)
        found.append(block.topk(k, dim=-1))
    return torch.cat([top.values for top in found]), torch.cat([top.indices for top in found])


def _nearest_by_faiss(units: Tensor, k: int) -> tuple[Tensor, Tensor]:
    import faiss

    rows = units.float().cpu().numpy()
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    values, columns = (
        torch.from_numpy(found).to(units.device) for found in index.search(rows, k + 1)
    )
    # A row finds itself first, unless it is zero or has duplicates: drop it wherever it is.
    own = columns == torch.arange(len(rows), device=units.device)[:, None]
    own[:, -1] |= ~own.any(-1)
    keep = ~own
    return values[keep].reshape(-1, k).to(units.dtype), columns[keep].reshape(-1, k)
