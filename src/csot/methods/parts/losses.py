"""Losses and targets that methods share. B rows, C classes; every mean is over the batch.

Early learning regularisation (ELR) keeps running targets t_i of the predictions p_i:

    t_i <- beta t_i + (1 - beta) p_i,        R = (1/B) sum_i log(1 - <t_i, p_i>)

R falls as a prediction agrees with what the network used to predict for the sample, so its gradient
outweighs that of a wrong label. t starts at zero and is updated before the loss is taken.
"""

from __future__ import annotations

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from csot._core.ranks import Ranks


def one_hot(labels: Tensor, classes: int) -> Tensor:
    """(B,) -> (B, C) float; all zeros where no label is given (-1)."""
    hot = torch.zeros(len(labels), classes, device=labels.device)
    return hot.scatter_(1, labels.clamp(min=0)[:, None], (labels >= 0).float()[:, None])


def cross_entropy(logits: Tensor, targets: Tensor, counted: Tensor | None = None) -> Tensor:
    """-(1/B) sum_i c_i <target_i, log p_i>; targets (B,) labels or (B, C) distributions.

    A label of -1 counts as zero. `counted` is c, by default ones; the divisor is always B.
    """
    each = each_cross_entropy(logits, targets)
    return (each if counted is None else counted * each).mean()


def each_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """(B,) -<target_i, log p_i>; targets as above."""
    if targets.dim() == 1:
        targets = one_hot(targets, logits.shape[-1])
    return -(targets * logits.float().log_softmax(-1)).sum(-1)


def negative_entropy(logits: Tensor) -> Tensor:
    """(1/B) sum_i sum_k p log p: added to a loss, it avoids overconfident predictions."""
    log_probs = logits.float().log_softmax(-1)
    return (log_probs.exp() * log_probs).sum(-1).mean()


def prior_penalty(logits: Tensor, ranks: Ranks) -> Tensor:
    """KL(uniform, mean prediction) = sum_k (1/C) log((1/C) / mean_i p_ik), over all processes."""
    mean = ranks.mean(logits.float().softmax(-1).mean(0))
    classes = logits.shape[-1]
    return -(mean.clamp(min=1e-12) * classes).log().mean()


def sharpen(probs: Tensor, temperature: float) -> Tensor:
    """q_k^(1/T), normalised."""
    logs = probs.clamp(min=1e-30).log() / temperature
    return logs.softmax(-1)


def refine(labels: Tensor, probs: Tensor, trust: Tensor, temperature: float) -> Tensor:
    """Sharpened w * onehot(y) + (1 - w) * p, with w the (B,) trust in each label."""
    trust = trust[:, None]
    return sharpen(trust * one_hot(labels, probs.shape[-1]) + (1 - trust) * probs, temperature)


def negative_cosine(predicted: Tensor, target: Tensor) -> Tensor:
    """-(1/B) sum_i cos(p_i, stopgrad(z_i)): one direction of the SimSiam loss."""
    return -F.cosine_similarity(predicted.float(), target.detach().float(), dim=-1).mean()


def simsiam(predicted: tuple[Tensor, Tensor], features: tuple[Tensor, Tensor]) -> Tensor:
    """(1/2)(l(p1, z2) + l(p2, z1)), l the negative cosine.

    The equation of the paper has a second minus sign, which would drive the views apart.
    """
    first = negative_cosine(predicted[0], features[1])
    return (first + negative_cosine(predicted[1], features[0])) / 2


# Contrastive losses: each query is drawn to its positives and away from all other keys.
#
#     L = -(1/M) sum_m sum_k P_mk log softmax_k(<z_m, z_k> / tau),    over the allowed keys k
#
# Each row of P sums to 1, or to 0 for a query without a positive. With several processes each one
# computes the loss of the whole batch, from embeddings that `whole_batch` collects.


def contrast(
    queries: Tensor, keys: Tensor, positives: Tensor, allowed: Tensor, temperature: float
) -> Tensor:
    """L. Embeddings (M, D) and (K, D) of length 1, (M, K) weights P, (M, K) bool."""
    logits = (queries.float() @ keys.float().T) / temperature
    log_probs = logits - logits.masked_fill(~allowed, -torch.inf).logsumexp(-1, keepdim=True)
    return -(positives * log_probs).sum(-1).mean()


def pair_contrast(
    first: Tensor, second: Tensor, temperature: float, *, both: bool = True
) -> Tensor:
    """Views (B, D) of the same rows: the positive of a row is its other view.

    The keys are both views of all rows except for the query itself. Without `both` only the first
    views are queries.
    """
    keys, count = torch.cat([first, second]), len(first)
    own = torch.eye(2 * count, dtype=torch.bool, device=keys.device)
    positives = own.roll(count, 1)
    queries = 2 * count if both else count
    return contrast(keys[:queries], keys, positives[:queries].float(), ~own[:queries], temperature)


def whole_batch(local: Tensor, ranks: Ranks) -> Tensor:
    """This process's share of a batch -> the whole batch, in its order, with its gradient."""
    if ranks.world == 1:
        return local
    count = ranks.world * len(local)
    whole = local.new_zeros(count, *local.shape[1:])
    whole[ranks.share(count).to(local.device)] = local
    return ranks.mean(whole) * ranks.world


CLIP = 1e-4
"""Distance of predictions from 0 and 1; avoids log(0) in R."""


def clipped_probs(logits: Tensor) -> Tensor:
    return logits.float().softmax(-1).clamp(CLIP, 1 - CLIP)


@torch.no_grad()
def remember(targets: Tensor, rows: Tensor, probs: Tensor, momentum: float, ranks: Ranks) -> Tensor:
    """Update (N, C) targets in place by the rows of all processes; returns those of `rows`."""
    gathered = ranks.gather(rows)
    targets[gathered] = momentum * targets[gathered] + (1 - momentum) * ranks.gather(probs)
    return targets[rows]


def regulariser(logits: Tensor, targets: Tensor) -> Tensor:
    """R; the targets are constants."""
    agreement = (targets * clipped_probs(logits)).sum(-1)
    return (1 - agreement).log().mean()


def target_posterior(targets: Tensor, probs: Tensor) -> Tensor:
    """(N, C) targets, normalised; where there is none yet, the prediction."""
    mass = targets.sum(-1, keepdim=True)
    return torch.where(mass > 0, targets / mass.clamp(min=torch.finfo(mass.dtype).tiny), probs)


def averaged(network: nn.Module) -> nn.Module:
    """A copy of a network that no optimiser updates."""
    return copy.deepcopy(network).requires_grad_(False)


@torch.no_grad()
def follow(average: nn.Module, network: nn.Module, decay: float) -> None:
    """One step of a_t = d a_{t-1} + (1 - d) w_t, for parameters only.

    Each network keeps its own batch statistics.
    """
    for mean, weight in zip(average.parameters(), network.parameters(), strict=True):
        mean.lerp_(weight, 1 - decay)


def sigmoid_ramp(step: float, length: float) -> float:
    """exp(-5 (1 - step/length)^2), from nearly 0 up to 1; always 1 for length 0."""
    share = min(max(step / length, 0.0), 1.0) if length > 0 else 1.0
    return math.exp(-5 * (1 - share) ** 2)
