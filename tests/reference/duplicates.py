"""Near-duplicates by definition: all distances, in float64, without cells or projections."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

K = 16


def near_duplicate_pairs(rows: npt.NDArray[np.float64], farthest: float) -> set[tuple[int, int]]:
    """Pairs i < j of different rows with d_ij <= r min(s_i, s_j), s_i the distance to the K-th."""
    n = len(rows)
    distance = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(-1))
    ordered = np.sort(distance + np.diag(np.full(n, np.inf)), axis=1)
    middle, outer = ordered[:, K // 2 - 1], ordered[:, K - 1]
    dimension = np.log(2) / np.median(np.log(outer / middle))
    radius = min(farthest, (n * (K - 1)) ** (-1 / dimension))
    while True:
        found = pairs_within(distance, outer, radius)
        more = pairs_within(distance, outer, 2 * radius)
        if not found or 2 * radius > farthest or len(found) >= 2 * (len(more) - len(found)):
            return found
        radius /= 2


def pairs_within(
    distance: npt.NDArray[np.float64], outer: npt.NDArray[np.float64], radius: float
) -> set[tuple[int, int]]:
    n = len(distance)
    return {
        (i, j)
        for i in range(n)
        for j in range(i + 1, n)
        if distance[i, j] <= radius * min(outer[i], outer[j])
    }
