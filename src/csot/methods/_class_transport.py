"""Which class each sample is transported to: OT between samples and one centre for each class.

    min_Q  <D, Q> + epsilon <Q, log Q> + sum_ik (Q_ik + e)^p      Q1 = 1/N,  Q'1 = 1/C

D holds Euclidean distances. The last term is concave (p < 1): it wants every sample to go to few
classes. It is minimised by linearising it a few times: D + p (Q + e)^(p - 1).

A centre is the entropic Wasserstein barycentre of its class with one support point. From one point
there is a single plan, which sends the same mass to every sample: the fixed point of the
barycentre's iteration is the mean, whatever the regularisation.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from csot.methods._losses import one_hot
from csot.ot.arrays import as_tensor
from csot.ot.numerics import ConvergenceWarning
from csot.ot.solve import solve

OFFSET = 1e-6
"""e: keeps the slope at an empty entry finite."""


def class_centres(features: Tensor, labels: Tensor, fallback: Tensor) -> Tensor:
    """(n, F), (n,) -> (C, F) means; a class without a sample keeps its row of `fallback`."""
    hot = one_hot(labels, len(fallback)).to(features)
    counts = hot.sum(0)[:, None]
    return torch.where(counts > 0, hot.T @ features / counts.clamp(min=1), fallback)


def class_plan(
    features: Tensor, centres: Tensor, *, epsilon: float, power: float, rounds: int
) -> Tensor:
    """(n, C) plan after `rounds` linearisations, the first of them without the concave term."""
    cost = torch.cdist(features, centres)
    plan, slope = torch.empty(0), torch.zeros_like(cost)
    for _ in range(rounds):
        plan = _transport((cost + slope) / epsilon)
        slope = power * (plan + OFFSET) ** (power - 1)
    return plan


def _transport(cost: Tensor) -> Tensor:
    """Entropic OT of weight 1 with uniform marginals; constants of a row do not matter to it."""
    with warnings.catch_warnings():
        # A plan that is feasible but not quite optimal is good enough for one epoch.
        warnings.simplefilter("ignore", ConvergenceWarning)
        plan = solve(log_probs=(-cost).log_softmax(-1), epsilon=1.0)
    return as_tensor("coupling", plan.coupling)
