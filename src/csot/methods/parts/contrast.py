"""Contrastive losses: each query is drawn to its positives and away from all other keys.

    L = -(1/M) sum_m sum_k P_mk log softmax_k(<z_m, z_k> / tau),    over the allowed keys k

Each row of P sums to 1, or to 0 for a query without a positive. With several processes each one
computes the loss of the whole batch, from embeddings that `whole_batch` collects.
"""

from __future__ import annotations

import torch
from torch import Tensor

from csot._core.ranks import Ranks


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
