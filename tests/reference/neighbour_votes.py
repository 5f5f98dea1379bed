"""Votes of the nearest rows, row by row in float64, from the equations."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FALL = 2.0
SMOOTHING = 2.0


def ballot(given: int, verified: int, noise: Floats) -> Floats | None:
    """What a row says of the given labels of its like; None if it has no label."""
    if verified >= 0:
        return noise[verified]
    if given >= 0:
        return np.eye(len(noise))[given]
    return None


def neighbour_votes(
    rows: Floats, fold: Ints, given: Ints, verified: Ints, noise: Floats, count: int
) -> Floats:
    """Shares (N, C) of given labels among the ``count`` nearest labelled rows of other folds."""
    ballots = [ballot(y, v, noise) for y, v in zip(given, verified, strict=True)]
    known = [entry for entry in ballots if entry is not None]
    shares = np.sum(known, axis=0) / len(known)
    votes = []
    for i, row in enumerate(rows):
        found = []
        for j, other in enumerate(rows):
            entry = ballots[j]
            if fold[j] != fold[i] and entry is not None:
                cosine = row @ other / np.sqrt((row @ row) * (other @ other))
                found.append((1 - cosine, entry))
        found = sorted(found, key=lambda pair: pair[0])[:count]
        if not found:
            votes.append(shares)
            continue
        nearest, last = found[0][0], found[-1][0]
        weights = [
            np.exp(-FALL * (distance - nearest) / max(last - nearest, 1e-6))
            for distance, _ in found
        ]
        total = np.sum([w * entry for w, (_, entry) in zip(weights, found, strict=True)], axis=0)
        total = total + SMOOTHING * np.mean(weights) * shares
        votes.append(total / total.sum())
    return np.array(votes)
