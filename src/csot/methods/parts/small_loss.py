"""Small-loss selection: by a mixture of two normal distributions, or the smallest of a batch."""

from __future__ import annotations

import warnings

import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from torch import Tensor

from csot._core.ranks import Ranks


def small_loss_posterior(losses: Tensor, seed: int) -> Tensor:
    """(N,) losses -> (N,) probability of belonging to the component of the smaller mean.

    Losses are scaled to [0, 1] first. Settings are those of DivideMix.
    """
    low, high = losses.min(), losses.max()
    if not bool(high > low):
        return torch.full_like(losses, 0.5)
    scaled = ((losses - low) / (high - low)).double().cpu().numpy()[:, None]
    mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=seed)
    # The method stops after ten iterations: non-convergence is expected here.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(scaled)
    posterior = mixture.predict_proba(scaled)[:, mixture.means_.argmin()]
    return torch.from_numpy(posterior).to(losses)


def smallest(losses: Tensor, share: float, ranks: Ranks, among: Tensor | None = None) -> Tensor:
    """(b,) bool: which of this process's rows have the smallest losses of the whole batch.

    Of the n rows of the batch that are `among` (all, if not given), int(share * n) are taken; all
    of them, if that would be none.
    """
    whole = ranks.gather(losses.detach())
    eligible = torch.ones_like(whole, dtype=torch.bool) if among is None else ranks.gather(among)
    candidates = int(eligible.sum())
    # Compensates for rounding: (1 - 0.3) * 10 is 7.
    count = int(share * candidates + 1e-6) or candidates
    order = torch.where(eligible, whole, torch.inf).argsort(stable=True)
    taken = torch.zeros_like(eligible)
    taken[order[:count]] = True
    return taken[ranks.share(len(whole)).to(taken.device)]


def total(mask: Tensor, ranks: Ranks) -> int:
    """Number of chosen rows over all processes."""
    return int(ranks.gather(mask).sum())


def mean_over(each: Tensor, chosen: Tensor, ranks: Ranks, least: float = 1.0) -> Tensor:
    """sum_i chosen_i each_i / max(least, number chosen), both over all processes.

    As losses are averaged over the W processes, this one's sum counts W times.
    """
    count = max(least, total(chosen, ranks))
    return (each * chosen).sum() * ranks.world / count
