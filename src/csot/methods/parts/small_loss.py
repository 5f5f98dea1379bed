"""Small-loss selection, and how many labels are wrong, which decides how many to select.

The selection is by a mixture of two normal distributions (DivideMix), or the smallest of a batch
(co-teaching). The noise rate is estimated from predictions alone by the confident joint (Northcutt
et al., 2021). With p_i the running mean of a model's predictions for row i and y_i its given label,

    t_k      mean of p_ik over the rows with y_i = k: the model's confidence in class k
    k_i      the likeliest class among those with p_ik >= t_k; a row with none is left out
    J[y, k]  number of rows with y_i = y and k_i = k, each line scaled to the rows labelled y

and the noise rate is the share of J off its diagonal. Thresholds per class compensate for a model
that is unsure, or biased towards some classes; rows below every threshold do not count. Two
alternatives fail: a mixture of two normal distributions on the losses calls half of the labels
wrong under asymmetric noise, and counting every disagreement includes the errors of an early model.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from csot._core.ranks import Ranks
from csot.methods.parts.losses import one_hot


def small_loss_posterior(losses: Tensor, seed: int) -> Tensor:
    """(N,) losses -> (N,) probability of belonging to the component of the smaller mean.

    Losses are scaled to [0, 1] first. Settings are those of DivideMix.
    """
    # Most methods share this module but not the mixture: heavy imports are deferred.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

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
    # Compensates for rounding: (1 - 0.9) * 10 is a little less than 1.
    count = int(share * candidates + 1e-6) or candidates
    order = torch.where(eligible, whole, torch.inf).argsort(stable=True)
    taken = torch.zeros_like(eligible)
    taken[order[:count]] = True
    return taken[ranks.share(len(whole)).to(taken.device)]


def first_of_each_class(order: Tensor, labels: Tensor, count: int, classes: int) -> Tensor:
    """(n,) bool: the first `count` rows of each class in `order`; all rows of a smaller class."""
    taken = torch.zeros_like(labels, dtype=torch.bool)
    for number in range(classes):
        taken[order[labels[order] == number][:count]] = True
    return taken


def total(mask: Tensor, ranks: Ranks) -> int:
    """Number of chosen rows over all processes."""
    return int(ranks.gather(mask).sum())


def mean_over(each: Tensor, chosen: Tensor, ranks: Ranks, least: float = 1.0) -> Tensor:
    """sum_i chosen_i each_i / max(least, number chosen), both over all processes.

    As losses are averaged over the W processes, this one's sum counts W times.
    """
    count = max(least, total(chosen, ranks))
    return (each * chosen).sum() * ranks.world / count


MEMORY = 0.7
"""Decay of the running mean: about three epochs, as single epochs fluctuate."""


def estimate_noise_rate(probs: Tensor, labels: Tensor) -> float:
    """(n, C) predictions and (n,) given labels, -1 for none -> share of wrong labels."""
    given = one_hot(labels, probs.shape[-1]).to(probs)
    sizes = given.sum(0)
    # No prediction is confident of a class that no label names.
    thresholds = torch.where(sizes > 0, (probs * given).sum(0) / sizes.clamp(min=1), torch.inf)
    sure = probs >= thresholds
    best = torch.where(sure, probs, -1.0).argmax(-1)
    counted = sure.any(-1) & (labels >= 0)
    right = (best == labels) & counted
    # The share of right labels among the confident rows of each line, weighed by the line's size.
    seen = given[counted].sum(0)
    share = given[right].sum(0) / seen.clamp(min=1)
    share = torch.where(seen > 0, share, 1.0)
    total = float(sizes.sum())
    return 1 - float((share * sizes).sum()) / total if total else 0.0


class NoiseRate(nn.Module):
    """The noise rate: known, or else estimated again at every update."""

    labels: Tensor
    mean: Tensor
    value: Tensor
    updates: Tensor

    def __init__(self, labels: Tensor, num_classes: int, known: float | None) -> None:
        super().__init__()
        self.known = known
        self.register_buffer("labels", labels, persistent=False)
        rows = 0 if known is not None else len(labels)
        self.register_buffer("mean", torch.zeros(rows, num_classes))
        self.register_buffer("value", torch.tensor(known or 0.0))
        self.register_buffer("updates", torch.zeros((), dtype=torch.long))

    def update(self, probs: Tensor) -> None:
        """(n, C) predictions at the end of an epoch, of the same rows every time."""
        if self.known is not None:
            return
        if len(probs) != len(self.mean):
            raise ValueError(
                f"predictions for {len(probs)} rows, but the noise rate is estimated on "
                f"{len(self.mean)}: with a `subset` of the rows every epoch, set `noise_rate`"
            )
        memory = MEMORY if int(self.updates) else 0.0
        self.mean.mul_(memory).add_((1 - memory) * probs)
        self.value.fill_(estimate_noise_rate(self.mean, self.labels))
        self.updates.add_(1)

    def read(self) -> float:
        return float(self.value)
