"""Votes of made-up annotators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Crowd:
    truth: Ints
    votes: Floats
    """(N, A), NaN where there is none."""
    probs: Floats
    skills: Floats


def make_crowd(
    n: int = 300,
    n_classes: int = 4,
    skills: tuple[float, ...] = (0.95, 0.85, 0.7, 0.5, 0.3),
    share: float = 0.5,
    seed: int = 0,
) -> Crowd:
    """Each annotator votes on a share of the samples; probs are right about as often as not."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n)
    votes = np.full((n, len(skills)), np.nan)
    for a, skill in enumerate(skills):
        wrong = (truth + rng.integers(1, n_classes, n)) % n_classes
        vote = np.where(rng.random(n) < skill, truth, wrong)
        votes[:, a] = np.where(rng.random(n) < share, vote, np.nan)
    logits = rng.normal(0, 1.0, (n, n_classes))
    logits[np.arange(n), truth] += 1.5
    probs = np.exp(logits)
    return Crowd(truth, votes, probs / probs.sum(1, keepdims=True), np.array(skills))
