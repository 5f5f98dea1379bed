"""SimiFeat: Zhu, Dong and Liu 2022, "Detecting corrupted labels without training a model to
predict" (ICML): vote and rank, k = 10.

The soft label of a row is the similarity-weighted count of the labels of its k nearest rows, the
row itself among them as in the published code (its own weight extrapolated, 2 s_1 - s_2, from the
similarities of the nearest two):

    q(i) = sum_{j in N(i)} s_ij e_{y_j}

- SimiFeat-V flags i where argmax q(i) differs from y_i.
- SimiFeat-R scores i by the cosine of q(i) and e_{y_i}, and flags, among the rows labelled j, the
  share P(true != j | given j) of lowest score. That share comes from HOC (``hoc.py``) by Bayes:
  1 - T_jj p_j / P(given j).

The published code repeats this over random augmentations of the images and takes the majority;
features alone have none, so there is one round, and its random jitter of the thresholds is left
out.
"""

from __future__ import annotations

import time

import numpy as np

from rivals.hoc import estimate
from rivals.knn_vote import votes, winner
from rivals.neighbours import Neighbours
from rivals.probe import CrossValidated
from rivals.verdict import Labels, Mask, Scores, Task, Verdict

K = 10


def soft_labels(given: Labels, own: Neighbours, n_classes: int, k: int = K) -> Scores:
    """q (N, C), as shares: k rows, the row itself among them."""
    near = own.similarity[:, : k - 1].astype(np.float64)
    self_weight = 2 * near[:, 0] - near[:, min(1, near.shape[1] - 1)]
    labels = np.concatenate([given[:, None], given[own.index[:, : k - 1]]], 1)
    weights = np.maximum(np.concatenate([self_weight[:, None], near], 1), 1e-6)
    return votes(labels, weights, n_classes)


def lowest_of_each_class(score: Scores, given: Labels, share: Scores) -> Mask:
    """Among the rows labelled j, flag the share[j] of lowest score."""
    flagged = np.zeros(len(given), dtype=np.bool_)
    for label, part in enumerate(share):
        rows = np.flatnonzero(given == label)
        count = round(float(part) * len(rows))
        flagged[rows[np.argsort(score[rows], kind="stable")[:count]]] = True
    return flagged


def judge_by_simifeat(task: Task, own: Neighbours, fitted: CrossValidated) -> dict[str, Verdict]:
    """Vote and rank; both retrain the probe without what they flagged."""
    start = time.perf_counter()
    soft = soft_labels(task.given, own, task.n_classes)
    predicted = winner(soft, task.given)
    rows = np.arange(len(task.given))
    cosine = soft[rows, task.given] / np.linalg.norm(soft, axis=1)
    shared = own.seconds + time.perf_counter() - start
    by_vote = predicted != task.given
    start = time.perf_counter()
    triples = np.concatenate([task.given[:, None], task.given[own.index[:, :2]]], 1)
    model = estimate(triples, task.n_classes)
    given_shares = np.bincount(task.given, minlength=task.n_classes) / len(task.given)
    by_rank = lowest_of_each_class(cosine, task.given, model.share_wrong(given_shares))
    ranking = time.perf_counter() - start
    found = {
        "simifeat_vote": (by_vote, float(by_vote.mean()), shared),
        "simifeat_rank": (by_rank, model.noise_rate, shared + ranking),
    }
    verdicts = {}
    for name, (flagged, rate, seconds) in found.items():
        start = time.perf_counter()
        test = fitted.predict(fitted.refit(~flagged), task.test)
        seconds += time.perf_counter() - start
        verdicts[name] = Verdict(cosine, flagged, predicted, rate, test, seconds)
    return verdicts
