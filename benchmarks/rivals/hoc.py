"""HOC: noise matrix and class shares from the consensus of neighbours.

Zhu, Song and Liu 2021, "Clusterability as an alternative to anchor points when learning with noisy
labels" (ICML). If a row and its two nearest neighbours share one true class, their three given
labels are independent draws from that class's row of T:

    c1_a   = sum_k p_k T_ka
    c2_ab  = sum_k p_k T_ka T_kb
    c3_abc = sum_k p_k T_ka T_kb T_kc

The left sides are counted; p and T are the softmax of free parameters that minimise
|c1 - c1^| + |c2 - c2^| + |c3 - c3^|, by Adam from T near the identity as in the published code.
Where the paper averages counts over subsamples, all rows are counted once, with nearer neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rivals.verdict import Labels, Scores

STEPS = 400
RATE = 0.1


@dataclass(frozen=True)
class NoiseModel:
    """T (C, C), rows true, and the shares (C,) of the true classes."""

    noise: Scores
    prior: Scores

    @property
    def noise_rate(self) -> float:
        return float(1 - (self.prior * np.diag(self.noise)).sum())

    def share_wrong(self, given_shares: Scores) -> Scores:
        """P(true class differs from j | given j), by Bayes, for each j."""
        right = np.diag(self.noise) * self.prior / np.maximum(given_shares, 1e-12)
        return 1 - np.clip(right, 0.0, 1.0)


def consensus(triples: Labels, n_classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Frequencies of the labels (N, 3) of each row and its two neighbours: 1, 2 and 3 at once."""
    a, b, c = triples.T
    counts = np.bincount((a * n_classes + b) * n_classes + c, minlength=n_classes**3)
    third = torch.from_numpy(counts / len(triples)).view(n_classes, n_classes, n_classes)
    return third.sum((1, 2)), third.sum(2), third


def moments(prior: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What the three frequencies are expected to be."""
    joint = prior[:, None] * noise
    return (
        joint.sum(0),
        torch.einsum("ka,kb->ab", joint, noise),
        torch.einsum("ka,kb,kc->abc", joint, noise, noise),
    )


def estimate(triples: Labels, n_classes: int, steps: int = STEPS) -> NoiseModel:
    counted = consensus(triples, n_classes)
    noise = (5 * torch.eye(n_classes) - torch.ones(n_classes, n_classes)).double()
    prior = torch.full((n_classes,), 1 / n_classes, dtype=torch.float64)
    noise.requires_grad_(), prior.requires_grad_()
    optimiser = torch.optim.Adam([noise, prior], lr=RATE)
    best, found = np.inf, (prior.detach().clone(), noise.detach().clone())
    for _ in range(steps):
        optimiser.zero_grad()
        expected = moments(prior.softmax(0), noise.softmax(1))
        loss = sum((e - c).norm() for e, c in zip(expected, counted, strict=True))
        if float(loss.detach()) < best:
            best, found = float(loss.detach()), (prior.detach().clone(), noise.detach().clone())
        loss.backward()
        optimiser.step()
    return NoiseModel(found[1].softmax(1).numpy(), found[0].softmax(0).numpy())
