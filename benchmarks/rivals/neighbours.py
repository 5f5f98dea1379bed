"""Nearest rows by cosine, exactly, block by block: (N, k) without an N x N matrix."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from rivals.verdict import Floats

BLOCK = 1024


@dataclass(frozen=True)
class Neighbours:
    """Indices and cosine similarities (N, k), nearest first, and the seconds they took."""

    index: npt.NDArray[np.int64]
    similarity: Floats
    seconds: float


def nearest(
    queries: Floats, features: Floats, k: int, *, leave_one_out: bool = False
) -> Neighbours:
    """The k nearest rows of ``features`` for each query; row i is never its own neighbour if
    ``leave_one_out``, where queries and features are the same rows.

    Features are centred on their mean first: otherwise all cosines are alike.
    """
    start = time.perf_counter()
    k = min(k, len(features) - int(leave_one_out))
    mean = features.mean(0, dtype=np.float64).astype(np.float32)
    unit = _directions(features - mean)
    asked = unit if leave_one_out else _directions(queries - mean)
    index = np.empty((len(asked), k), dtype=np.int64)
    similarity = np.empty((len(asked), k), dtype=np.float32)
    for i in range(0, len(asked), BLOCK):
        cosine = asked[i : i + BLOCK] @ unit.T
        if leave_one_out:
            rows = torch.arange(len(cosine))
            cosine[rows, rows + i] = -torch.inf
        best = cosine.topk(k, dim=1)
        index[i : i + BLOCK], similarity[i : i + BLOCK] = best.indices, best.values
    return Neighbours(index, similarity, time.perf_counter() - start)


def _directions(rows: Floats) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.from_numpy(rows), dim=1)
