"""The gate after training: are held-out labels predicted clearly better than chance?

A network that has learned nothing still has a verdict on every label. Nothing but the labels can
tell, so its predictions for rows that it was not trained on are compared with their given labels:

1. A permutation test. If predictions and labels were independent, every order of the labels would
   be as likely as the given one. The p-value is the share of random orders in which the labels have
   as much probability in all, exact for any number of rows and classes. Probabilities say more than
   the likeliest class alone: it agrees most often where the network is sure.
2. Dominance. Of the rows predicted as class k, no other label may be clearly more frequent than k:
   a network that finds some structure but not the classes passes the first test on many rows, and
   would still replace right labels by wrong ones. That the right label is the most frequent one of
   its class is also what every estimate of label noise assumes. The most frequent label is found on
   one half of the rows and tried on the other, and the difference is judged by McNemar's test.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

LEVEL = 0.001
"""Significance level: the share of runs that learned nothing and pass nevertheless."""
PERMUTATIONS = 9_999
ROWS = 5_000
"""Held-out rows that are looked at; more would only take longer."""
STANDARD_ERRORS = 3.0
"""Threshold of McNemar's test: about the same level."""
CHUNK = 1 << 22
"""Numbers per chunk of permutations."""
UNITS = 1_000_000
"""Probabilities are counted in these, so that equal sums are equal in every order."""


@dataclass(frozen=True)
class HeldOutTest:
    """How well held-out labels were predicted, and whether that is better than chance."""

    rows: int
    accuracy: float
    """Share of the predictions that agree with the given label."""
    chance: float
    """The same for labels in random order."""
    p_value: float
    least_p_value: float
    """That of predictions which agree with every label: too high if there are too few rows."""
    excess: float
    """Standard errors by which other labels agree better with the predicted classes."""

    @property
    def informative(self) -> bool:
        return self.p_value <= LEVEL and self.excess < STANDARD_ERRORS

    def words(self) -> str:
        """Why nothing was changed."""
        if self.least_p_value > LEVEL:
            return (
                f"{self.rows} held-out labels are too few to tell whether the network predicts "
                "labels better than chance: no label was changed. Hold out more rows "
                "(holdout=0.2)."
            )
        found = (
            f"{self.accuracy:.1%} of {self.rows:,} held-out labels were predicted, "
            f"{self.chance:.1%} would be by chance"
        )
        return (
            f"The network does not predict held-out labels clearly better than chance ({found}): "
            "no label was changed. Train longer, with another learning rate or network, or hold "
            "out more rows (holdout)."
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_held_out(probs: Tensor, labels: Tensor, generator: torch.Generator) -> HeldOutTest:
    """Test probabilities (n, C) of held-out rows against their labels (n,), -1 for none."""
    known = (labels >= 0).nonzero()[:, 0]
    order = torch.randperm(len(known), generator=generator)[:ROWS]
    chosen = known[order]
    probs, labels = probs[chosen], labels[chosen]
    count, classes = probs.shape
    if count == 0:
        return HeldOutTest(0, 0.0, 0.0, 1.0, 1.0, 0.0)
    predicted = probs.argmax(1)
    shares = [torch.bincount(x, minlength=classes).double() / count for x in (predicted, labels)]
    # Of n! orders of the labels, n_1! n_2! ... are the given one again.
    log_orders = math.lgamma(count + 1) - float(torch.lgamma(shares[1] * count + 1).sum())
    return HeldOutTest(
        rows=count,
        accuracy=float((predicted == labels).double().mean()),
        chance=float(shares[0] @ shares[1]),
        p_value=permutation_p_value(probs, labels, generator),
        least_p_value=math.exp(-log_orders),
        excess=excess_of_other_labels(predicted, labels),
    )


def permutation_p_value(probs: Tensor, labels: Tensor, generator: torch.Generator) -> float:
    """(1 + number of random orders whose labels are as probable) / (1 + number of orders)."""
    units = (probs.double() * UNITS).round().long().numpy()
    given = labels.numpy()
    # Of row i and label k at place i C + k.
    first = np.arange(len(given)) * units.shape[1]
    observed = units.take(first + given).sum()
    # NumPy shuffles in a third of the time that sorting random numbers takes.
    rng = np.random.default_rng(int(torch.randint(2**63 - 1, (1,), generator=generator)))
    as_many, done = 1, 0
    while done < PERMUTATIONS:
        size = min(PERMUTATIONS - done, max(1, CHUNK // len(given)))
        shuffled = rng.permuted(np.broadcast_to(given, (size, len(given))), axis=1)
        shuffled += first
        as_many += int((units.take(shuffled).sum(1) >= observed).sum())
        done += size
    return as_many / (1 + PERMUTATIONS)


def excess_of_other_labels(predicted: Tensor, labels: Tensor) -> float:
    """McNemar's (b - c) / sqrt(b + c), of the most frequent label of each predicted class.

    b and c are the rows where only that label, or only the predicted class, is the given one.
    The label is the most frequent one of the other half of the rows; the rows are in random order.
    """
    half = torch.arange(len(labels)) % 2
    other = predicted.clone()
    for number in (0, 1):
        seen = half != number
        frequent = most_frequent_labels(predicted[seen], labels[seen])
        tried = [frequent.get(k, k) for k in predicted[~seen].tolist()]
        other[~seen] = torch.tensor(tried, dtype=other.dtype)
    gained = int(((other == labels) & (predicted != labels)).sum())
    lost = int(((other != labels) & (predicted == labels)).sum())
    return (gained - lost) / math.sqrt(max(1, gained + lost))


def most_frequent_labels(predicted: Tensor, labels: Tensor) -> dict[int, int]:
    """Most frequent label by predicted class; a tie goes to the predicted class itself."""
    counts = Counter(zip(predicted.tolist(), labels.tolist(), strict=True))
    found: dict[int, int] = {}
    for (k, label), count in counts.items():
        if count > counts[k, found.get(k, k)]:
            found[k] = label
    return found
