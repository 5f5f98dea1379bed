"""Choosing rows within a batch that several processes share, and the mean over those chosen."""

from __future__ import annotations

import torch
from torch import Tensor

from csot.methods._ranks import Ranks


def smallest(losses: Tensor, share: float, ranks: Ranks, among: Tensor | None = None) -> Tensor:
    """(b,) bool: which of this process's rows have the smallest losses of the whole batch.

    Of the n rows of the batch that are `among` (all, if not given), int(share * n) are taken; all
    of them, if that would be none.
    """
    whole = ranks.gather(losses.detach())
    eligible = torch.ones_like(whole, dtype=torch.bool) if among is None else ranks.gather(among)
    there = int(eligible.sum())
    # The tiny addition undoes rounding: (1 - 0.3) * 10 is 7.
    count = int(share * there + 1e-6) or there
    order = torch.where(eligible, whole, torch.inf).argsort(stable=True)
    taken = torch.zeros_like(eligible)
    taken[order[:count]] = True
    return taken[ranks.share(len(whole)).to(taken.device)]


def total(mask: Tensor, ranks: Ranks) -> int:
    """Rows chosen, over all processes."""
    return int(ranks.gather(mask).sum())


def mean_over(each: Tensor, chosen: Tensor, ranks: Ranks, least: float = 1.0) -> Tensor:
    """sum_i chosen_i each_i / max(least, number chosen), both over all processes.

    As losses are averaged over the W processes, this one's sum counts W times.
    """
    count = max(least, total(chosen, ranks))
    return (each * chosen).sum() * ranks.world / count
