"""Votes of the nearest rows: local structure that no probe or network has learned.

    d_ij   cosine distance of the rows i and j, on principal axes with the constant column
    w_ij = exp(-FALL (d_ij - d_i1) / (d_iK - d_i1))      the K nearest labelled rows of other folds
    v_i  = sum_j w_ij e(y_j), smoothed by the label shares, over its sum               (N, C)
    s_i    the truth behind the votes: s_i T ~ v_i (`deconvolve`);  Z = log s

A verified row votes as rows of its class are labelled, by T[c, :]. Rows of the same fold have no
vote, and with them neither have the row itself, its group and its near-duplicates.

Votes judge the rows of `fit` only: for new rows the training rows would have to be kept.
"""

from __future__ import annotations

import torch
from torch import Tensor

from csot.clean.folds import Folds
from csot.clean.likelihood import Evidence
from csot.clean.members.member import Member, TrainingSet
from csot.clean.noise_matrix import deconvolve

MOST_ROWS = 10_000
"""Rows up to which all are compared with all."""
LEAST_ROWS_PER_CLASS = 30
"""Fewer, and the nearest rows are mostly of other classes."""
NEIGHBOURS = 50
SHARE_OF_CLASS = 3
"""Neighbours are at most this part of an average class."""
FALL = 2.0
"""log of the weight of the nearest neighbour over that of the last."""
SMOOTHING = 2.0
"""Votes of mean weight that are added, spread as the labels are."""
ROWS_AT_A_TIME = 2048


class NeighbourVotes:
    """The labels of the nearest rows of other folds, as one more member."""

    name = "neighbours"
    stage = "neighbours"

    def applies(self, training: TrainingSet) -> bool:
        """Whether rows are few enough to compare all, and many enough for each class."""
        n_rows = len(training.evidence)
        return LEAST_ROWS_PER_CLASS * training.evidence.n_classes <= n_rows <= MOST_ROWS

    def fit(self, training: TrainingSet, noise: Tensor) -> Member:
        """Votes under a noise matrix."""
        evidence = training.evidence
        count = len(evidence) // (SHARE_OF_CLASS * evidence.n_classes)
        votes = neighbour_votes(
            training.basis.rows, training.folds, evidence, noise, min(count, NEIGHBOURS)
        )
        return Member(self.name, deconvolve(votes, noise).log(), None)


def neighbour_votes(
    rows: Tensor, folds: Folds, evidence: Evidence, noise: Tensor, count: int
) -> Tensor:
    """Shares (N, C) of given labels among the `count` nearest rows of other folds."""
    directions = torch.nn.functional.normalize(rows)
    ballots = _ballots(evidence, noise)
    has_vote = ballots.sum(1) > 0
    shares = ballots.sum(0) / ballots.sum()
    votes = shares.repeat(len(rows), 1)
    for k in range(folds.n_folds):
        voters = ((folds.fold != k) & has_vote).nonzero()[:, 0]
        if not len(voters):
            continue
        reference, labels = directions[voters].T, ballots[voters]
        held_out = folds.held_out(k)
        for i in range(0, len(held_out), ROWS_AT_A_TIME):
            queries = held_out[i : i + ROWS_AT_A_TIME]
            nearest = (directions[queries] @ reference).topk(min(count, len(voters)))
            weights = _weights(1 - nearest.values)
            total = (weights[:, None, :] @ labels[nearest.indices])[:, 0]
            total += SMOOTHING * weights.mean(1, keepdim=True) * shares
            votes[queries] = total / total.sum(1, keepdim=True)
    return votes


def _weights(distances: Tensor) -> Tensor:
    """w (N, K) from ascending distances (N, K)."""
    beyond = distances - distances[:, :1]
    return (-FALL * beyond / beyond[:, -1:].clamp_min(1e-6)).exp()


def _ballots(evidence: Evidence, noise: Tensor) -> Tensor:
    """What each row says of the given labels of its like: (N, C), zero where it has no label."""
    ballots = noise.new_zeros(len(evidence), evidence.n_classes)
    labelled, checked = (labels >= 0 for labels in (evidence.given, evidence.verified))
    ballots[labelled] = torch.eye(evidence.n_classes)[evidence.given[labelled]]
    ballots[checked] = noise[evidence.verified[checked]]
    return ballots
