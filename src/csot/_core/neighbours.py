"""Nearest neighbours by cosine: exact, in blocks of rows, so that memory is bounded."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

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
