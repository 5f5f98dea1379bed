"""Nearest neighbours within random cells: enough to find pairs far closer than their surroundings.

The rows are divided among random pivots, each row to the nearest, until a cell holds at most
`CELL` rows; inside a cell all distances are computed. Up to `CELL` rows that is exact. Beyond
it a pair is missed if a cell boundary runs between its rows in every one of `PASSES` divisions.
The cost is O(N log N D), without N x N.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from csot._core.array_types import Floats, Ints

K = 16
"""Neighbour whose distance is the scale of a row's surroundings."""
CELL = 256
PIVOTS = 128
"""Cells that a cell is divided into at most."""
PASSES = 3
ROWS_AT_A_TIME = 65_536
DIMENSIONS = 64
"""Wider rows are projected at random, which keeps distances within about 9 percent."""
SLACK = 1.5
"""What the projection may add to a ratio of distances before the exact one is computed."""


@dataclass(frozen=True)
class NearPairs:
    """Pairs of rows with their distance, and the distances to neighbours K/2 and K of every row."""

    one: Ints
    other: Ints
    distance: Floats
    middle: Floats
    outer: Floats


def near_pairs(rows: Tensor, ratio: float, seed: int) -> NearPairs | None:
    """Pairs nearer than `ratio` times the smaller of their distances to the K-th neighbour.

    `rows` (N, D) all different. None if there are too few rows for a K-th neighbour.
    """
    if len(rows) <= K:
        return None
    generator = torch.Generator().manual_seed(seed)
    flat = _narrowed(rows, generator)
    middle, outer, pairs = _surroundings(flat, ratio, generator)
    known = outer.isfinite()
    if not bool(known.any()):
        return None
    outer, middle = (torch.where(known, x, x[known].median()) for x in (outer, middle))
    if len(rows) > CELL:
        for _ in range(PASSES - 1):
            pairs += _across(flat, SLACK * ratio * outer, generator)
    both = torch.cat(pairs, 1).sort(0).values
    both = torch.unique(both[:, both[0] < both[1]], dim=1)
    distance = _distances(rows, both)
    kept = distance <= ratio * torch.minimum(outer[both[0]], outer[both[1]])
    one, other = both[:, kept].numpy()
    floor = torch.finfo(torch.float32).tiny
    return NearPairs(
        one,
        other,
        distance[kept].double().numpy(),
        middle.clamp_min(floor).double().numpy(),
        outer.clamp_min(floor).double().numpy(),
    )


def _surroundings(
    rows: Tensor, ratio: float, generator: torch.Generator
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """One division: distances (N,) to the neighbours K/2 and K, and pairs (2, P) of every cell."""
    middle, outer = torch.full((2, len(rows)), torch.inf)
    pairs = []
    for cell in _cells(rows, generator):
        nearest = _squared_distances(rows[cell]).topk(min(K, len(cell) - 1), largest=False)
        distance = nearest.values.clamp_min(0).sqrt()
        if distance.shape[1] == K:
            middle[cell], outer[cell] = distance[:, K // 2 - 1], distance[:, -1]
        one, place = (distance <= SLACK * ratio * distance[:, -1:]).nonzero(as_tuple=True)
        pairs.append(torch.stack([cell[one], cell[nearest.indices[one, place]]]))
    return middle, outer, pairs


def _across(rows: Tensor, radius: Tensor, generator: torch.Generator) -> list[Tensor]:
    """Another division: pairs (2, P) of every cell within the radius (N,) of the first."""
    pairs = []
    for cell in _cells(rows, generator):
        close = _squared_distances(rows[cell]) <= radius[cell, None].square()
        pairs.append(cell[close.nonzero().T])
    return pairs


def _narrowed(rows: Tensor, generator: torch.Generator) -> Tensor:
    """Project to at most DIMENSIONS columns that keep distances; centred to reduce rounding."""
    rows = rows - rows.mean(0)
    if rows.shape[1] <= DIMENSIONS:
        return rows
    directions: Tensor = torch.randn(rows.shape[1], DIMENSIONS, generator=generator)
    narrow: Tensor = rows @ (directions / DIMENSIONS**0.5)
    return narrow


def _cells(rows: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
    """Row numbers of every cell."""
    waiting = [torch.arange(len(rows))]
    while waiting:
        cell = waiting.pop()
        if len(cell) <= CELL:
            yield cell
            continue
        n_pivots = min(PIVOTS, -(-2 * len(cell) // CELL))
        own = rows[cell]
        pivots = own[torch.randperm(len(cell), generator=generator)[:n_pivots]]
        nearest = _nearest(own, pivots)
        order = nearest.argsort(stable=True)
        sizes = torch.bincount(nearest, minlength=n_pivots).tolist()
        if max(sizes) == len(cell):
            # Rows that rounding cannot tell apart: any division is as good as another.
            order, sizes = torch.arange(len(cell)), [len(cell) // 2, len(cell) - len(cell) // 2]
        waiting += [part for part in torch.split(cell[order], sizes) if len(part) > 1]


def _nearest(rows: Tensor, pivots: Tensor) -> Tensor:
    """Place of the nearest pivot of each row (N,)."""
    square = pivots.square().sum(1)
    parts = torch.split(rows, ROWS_AT_A_TIME)
    return torch.cat([torch.addmm(square, x, pivots.T, alpha=-2).argmin(1) for x in parts])


def _squared_distances(rows: Tensor) -> Tensor:
    """(n, n), infinite on the diagonal."""
    square = rows.square().sum(1)
    distance = torch.addmm(square, rows, rows.T, alpha=-2).add_(square[:, None])
    return distance.fill_diagonal_(torch.inf)


def _distances(rows: Tensor, pairs: Tensor) -> Tensor:
    """Distances of the pairs (2, P), computed from differences."""
    parts = [(rows[p[0]] - rows[p[1]]).norm(dim=1) for p in torch.split(pairs, 4096, 1)]
    return torch.cat(parts) if parts else rows.new_empty(0)
