"""Similarity between samples as an operator: S X without forming the N x N matrix S.

The solver keeps samples on the last axis, so an operator maps (B, K, N) to (B, K, N):
`(S X)_bki = sum_j S_bij X_bkj`, with S symmetric and zero on the diagonal. S is a matrix, a
function of the user, or the graph of nearest neighbours: the cosine between each sample and its k
nearest. The graph is local, whereas the full cosine (`cosine`) attracts samples to class
centroids. The search is exact, in blocks of rows, or by faiss if it is installed and the problem is
large.
"""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from csot.ot.numerics import csr_matrix, inverse_or_zero


class Similarity(Protocol):
    """A symmetric similarity between the N samples of each of B problems."""

    def apply(self, x: Tensor) -> Tensor:
        """S X for `x` of shape (B, K, N)."""

    def apply_within(self, x: Tensor, labels: Tensor, n_classes: int) -> Tensor:
        """sum_j S_ij [y_i = y_j >= 0] x_j for `x` and `labels` of shape (B, N)."""


class OneHotWithin(ABC):
    """`apply_within` for any operator, by one-hot encoding x by class."""

    @abstractmethod
    def apply(self, x: Tensor) -> Tensor:
        """S X for `x` of shape (B, K, N)."""

    def apply_within(self, x: Tensor, labels: Tensor, n_classes: int) -> Tensor:
        given = labels >= 0
        index = labels.clamp(min=0)[:, None]
        encoded = x.new_zeros(x.shape[0], n_classes, x.shape[1])
        encoded.scatter_(1, index, (x * given)[:, None])
        return self.apply(encoded).gather(1, index)[:, 0] * given


class MatrixSimilarity(OneHotWithin):
    """S as a dense (B, N, N) or, for a single problem, sparse (N, N) symmetric matrix."""

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix

    def apply(self, x: Tensor) -> Tensor:
        if self._matrix.layout == torch.strided:
            return x @ self._matrix
        return torch.stack([(self._matrix @ problem.mT).mT for problem in x])


def asymmetry(matrix: Tensor) -> float:
    """max |S - S'| / max |S| of a dense (..., N, N) or sparse (N, N) matrix."""
    if matrix.layout == torch.strided:
        difference, values = matrix - matrix.mT, matrix
    else:
        difference = _plus_transpose(matrix, sign=-1.0).values()
        values = _coordinates(matrix).coalesce().values()
    largest = float(values.abs().max()) if values.numel() else 0.0
    return float(difference.abs().max()) / largest if largest > 0 else 0.0


def symmetric_part(matrix: Tensor) -> Tensor:
    """(S + S')/2, on which alone Omega depends. The gradient needs a symmetric operator."""
    if matrix.layout == torch.strided:
        return (matrix + matrix.mT) / 2
    total = _plus_transpose(matrix, sign=1.0)
    rows, columns = total.indices()
    return csr_matrix(rows, columns, total.values() / 2, (len(total), len(total)))


def _plus_transpose(matrix: Tensor, sign: float) -> Tensor:
    """S + sign S' of a sparse matrix, in COO layout."""
    entries = _coordinates(matrix).coalesce()
    places = torch.cat([entries.indices(), entries.indices().flip(0)], 1)
    values = torch.cat([entries.values(), sign * entries.values()])
    return torch.sparse_coo_tensor(places, values, matrix.shape, check_invariants=False).coalesce()


def _coordinates(matrix: Tensor) -> Tensor:
    """A sparse matrix in COO layout."""
    if matrix.layout == torch.sparse_coo:
        return matrix
    coordinates: Tensor = matrix.to_sparse(layout=torch.sparse_coo)
    return coordinates


class FunctionSimilarity(OneHotWithin):
    """The user's own operator: a function from X, one row per sample, to S X of the same shape.

    It is called with (N, K) for a single problem and with (B, N, K) for a batch.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], *, batched: bool) -> None:
        self._function = function
        self._batched = batched

    def apply(self, x: Tensor) -> Tensor:
        given = x.mT if self._batched else x[0].mT
        result = self._function(given)
        if not isinstance(result, Tensor) or result.shape != given.shape:
            got = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise ValueError(
                f"similarity: the operator must map a tensor of shape {tuple(given.shape)} to one "
                f"of the same shape, but returned {got}"
            )
        if result.dtype != given.dtype or not bool(result.isfinite().all()):
            raise ValueError(
                f"similarity: the operator must return finite numbers of dtype {given.dtype}, but "
                f"returned {result.dtype}{'' if result.isfinite().all() else ' with NaN or inf'}"
            )
        return result.mT if self._batched else result.mT[None]


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
