"""Jensen-Shannon divergence, to base 2: 0 for equal distributions, 1 for disjoint ones.

JS(p, q) = (1/2) sum_k (p_k log p_k/m_k + q_k log q_k/m_k),    m = (p + q) / 2
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def js_to_labels(probs: Tensor, smoothing: float) -> Tensor:
    """(N, C) -> (N, C): from each row to each class's smoothed one-hot vector.

    That vector has 1 - smoothing at the class and `smoothing` everywhere else; NCE does not
    normalise it. So all but one of the C terms are the same for every class.
    """
    off = _terms(probs, torch.full_like(probs, smoothing))
    on = _terms(probs, torch.full_like(probs, 1 - smoothing))
    return off.sum(-1, keepdim=True) - off + on


def _terms(p: Tensor, q: Tensor) -> Tensor:
    """(..., C): what each class adds to JS(p, q)."""
    mean = (p + q) / 2
    nats = torch.xlogy(p, p) - torch.xlogy(p, mean) + torch.xlogy(q, q) - torch.xlogy(q, mean)
    return nats / (2 * math.log(2))
