"""Class shares of the truth: those of a given prior, or leaning towards equal ones.

By Bayes' rule a class w_k times likelier a priori is w_k times likelier a posteriori: q (N, C)
becomes q_k w_k / sum, with factors w (C,) that make the expected shares those of a prior (Saerens
et al. 2002).

Without a prior the shares of the labels are all there is, and noise that depends on the sample
moves them: some classes gain labels at the expense of others. Many data sets were collected with
classes of equal size. So far as mistakes could have made the difference, the factors go half of the
way to equal shares, on a logarithmic scale:

    distance = sum_k |mean q_k - 1/C| / 2             share of rows in which the classes differ
    wrong    = mean of 1 - q_y                        share of labels that are wrong
    w        = w_equal ^ (BALANCE max(0, 1 - (2 distance / wrong)^2))

A set whose classes differ by more than half of its wrong labels is left as it is.
"""

from __future__ import annotations

import torch
from torch import Tensor

BALANCE = 0.5
"""How far the factors go towards equal shares."""
SMALLEST_SHARE = 1e-12
MAX_STEPS, LARGEST_STEP = 60, 3.0
LARGEST_FACTOR = 3.0
"""Bound on the factors that lean towards balance: a class without rows would get a huge one."""


def prior_factors(truth: Tensor, class_prior: Tensor, *, tolerance: float = 1e-6) -> Tensor:
    """w (C,) with which the expected shares of q (N, C) are those of a prior.

    Newton steps on log w with the diagonal of the Jacobian, s_k - mean r_k^2 for shares s and
    weighted rows r; half a step, since what one class gains others lose. Where rows are nearly
    certain, plain scaling would need hundreds of steps, and these come as near as they can.
    """
    target = class_prior.to(truth.dtype)
    wanted = target.clamp_min(SMALLEST_SHARE).log()
    truth, logs = truth.clamp_min(1e-30), torch.zeros_like(target)
    for _ in range(MAX_STEPS):
        weighted = reweighted(truth, logs.exp())
        shares = weighted.mean(0)
        if float((shares - target).abs().max()) < tolerance:
            break
        movable = 1 - weighted.square().mean(0) / shares.clamp_min(SMALLEST_SHARE)
        step = (wanted - shares.clamp_min(SMALLEST_SHARE).log()) / movable.clamp_min(0.01)
        logs += (step / 2).clamp(-LARGEST_STEP, LARGEST_STEP)
        logs -= logs.mean()
    # A verified row may be of a class of share zero.
    return logs.exp().clamp_min(1e-100)


def balance_factors(truth: Tensor, given: Tensor) -> Tensor:
    """w (C,) that leans towards equal shares of q (N, C), for given labels (N,), -1 for none."""
    labelled = given >= 0
    own = truth[labelled].gather(1, given[labelled, None])
    wrong = 1 - float(own.mean()) if len(own) else 0.0
    n_classes = truth.shape[1]
    equal = truth.new_full((n_classes,), 1 / n_classes)
    distance = float((truth.mean(0) - equal).abs().sum()) / 2
    if 2 * distance >= wrong:
        return torch.ones_like(equal)
    believed = BALANCE * (1 - (2 * distance / wrong) ** 2)
    factors = prior_factors(truth, equal, tolerance=1e-4) ** believed
    return (factors / factors.log().mean().exp()).clamp(1 / LARGEST_FACTOR, LARGEST_FACTOR)


def class_factors(truth: Tensor, given: Tensor, class_prior: Tensor | None) -> Tensor:
    """w (C,) for a given prior, or without one."""
    if not len(truth):
        return truth.new_ones(truth.shape[1])
    if class_prior is None:
        return balance_factors(truth, given)
    return prior_factors(truth, class_prior)


def reweighted(truth: Tensor, factors: Tensor) -> Tensor:
    """q_k w_k / sum (N, C)."""
    weighted = truth * factors
    return weighted.div_(weighted.sum(1, keepdim=True))
