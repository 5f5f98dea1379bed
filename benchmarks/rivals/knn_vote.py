"""k-NN vote: the share of a row's k nearest rows that carry each label.

    v_k(i) = #{j in N_k(i): y_j = k} / K,   row i itself left out

Score v_{y_i}(i); flagged where argmax_k v_k(i) differs from y_i (ties: the given label if it is
among the best, else the lowest class). Test rows get the majority of their neighbours.
"""

from __future__ import annotations

import time

import numpy as np

from rivals.neighbours import Neighbours
from rivals.verdict import Labels, Scores, Task, Verdict


def votes(labels: Labels, weights: Scores | None, n_classes: int) -> Scores:
    """Weighted counts (N, C) of neighbours' labels (N, K), as shares."""
    n = len(labels)
    cells = np.arange(n)[:, None] * n_classes + labels
    flat = None if weights is None else weights.ravel()
    counted = np.bincount(cells.ravel(), flat, minlength=n * n_classes).reshape(n, n_classes)
    return counted / np.maximum(counted.sum(1, keepdims=True), 1e-12)


def winner(shares: Scores, given: Labels) -> Labels:
    """The class of the largest share; the given label where it is among the largest."""
    rows = np.arange(len(given))
    best = shares.argmax(1)
    return np.where(shares[rows, given] >= shares[rows, best], given, best)


def judge_by_vote(task: Task, own: Neighbours, test: Neighbours, k: int) -> Verdict:
    start = time.perf_counter()
    shares = votes(task.given[own.index[:, :k]], None, task.n_classes)
    predicted = winner(shares, task.given)
    flagged = predicted != task.given
    for_test = votes(task.given[test.index[:, :k]], None, task.n_classes).argmax(1)
    return Verdict(
        score=shares[np.arange(len(task.given)), task.given],
        flagged=flagged,
        predicted=predicted,
        noise_rate=float(flagged.mean()),
        test=for_test,
        seconds=own.seconds + test.seconds + time.perf_counter() - start,
    )
