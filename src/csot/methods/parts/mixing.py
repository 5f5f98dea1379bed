"""Mixup, and MixMatch on labelled rows and rows whose labels are guessed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from csot._core.ranks import Ranks
from csot.methods.core.contract import Context, Losses
from csot.methods.parts.losses import (
    cross_entropy,
    each_cross_entropy,
    one_hot,
    prior_penalty,
    sharpen,
)
from csot.methods.parts.small_loss import mean_over


@dataclass(frozen=True)
class Mix:
    """One draw of mixup: the weight of each row itself, and its partner."""

    keep: float
    partners: Tensor
    """(b,) for this process's rows, as positions in the whole batch."""
    ranks: Ranks

    def __call__(self, values: Tensor) -> Tensor:
        """keep * own + (1 - keep) * partner's, for inputs or for targets."""
        whole = self.ranks.gather(values)
        return self.keep * values + (1 - self.keep) * whole[self.partners.to(values.device)]


def draw_mix(
    count: int,
    alpha: float,
    generator: torch.Generator,
    ranks: Ranks,
    *,
    own_side: bool = True,
) -> Mix:
    """Draw a mix of `count` rows over all processes: one lambda from Beta(alpha, alpha).

    `own_side` takes max(lambda, 1 - lambda), so that the row itself has the larger weight.
    """
    keep = _beta(alpha, generator)
    partners = torch.randperm(count, generator=generator)
    return Mix(max(keep, 1 - keep) if own_side else keep, partners[ranks.share(count)], ranks)


def mixup_among(
    views: list[Tensor],
    labels: Tensor,
    chosen: Tensor,
    logits: Callable[[Tensor], Tensor],
    context: Context,
    alpha: float,
) -> Tensor:
    """Mixup cross-entropy of all views of chosen rows, mixed with one another; a mean over them.

    Lambda may be below one half, as in RRL and NGC. `labels` and `chosen` are (b,), for this
    process's rows; `logits` maps mixed inputs to (n, C).
    """
    ranks, count = context.ranks, len(views)
    chosen = chosen.repeat(count)
    whole = ranks.gather(chosen).cpu()
    drawn = draw_mix(len(whole), alpha, context.generator, ranks, own_side=False)
    # Rows that are not chosen are their own partners, and then left out.
    places, partners = whole.nonzero()[:, 0], torch.arange(len(whole))
    partners[places] = places[torch.randperm(len(places), generator=context.generator)]
    mix = Mix(drawn.keep, partners[ranks.share(len(whole))], ranks)
    hot = one_hot(labels, context.num_classes).repeat(count, 1)
    inputs, targets = mix(torch.cat(views)), mix(hot)
    each = hot.new_zeros(len(hot))
    if bool(chosen.any()):
        found = each_cross_entropy(logits(inputs[chosen]), targets[chosen])
        each = each.index_put((chosen,), found)
    return mean_over(each, chosen, ranks)


def _beta(alpha: float, generator: torch.Generator) -> float:
    """Beta(alpha, alpha). NumPy draws it, as torch.distributions takes no generator."""
    seed = int(torch.randint(2**62, (), generator=generator))
    return float(np.random.default_rng(seed).beta(alpha, alpha))


@dataclass(frozen=True)
class Side:
    """b rows in one or more views, with one target for all views of a row."""

    views: list[Tensor]
    targets: Tensor
    """(b, C)."""


@torch.no_grad()
def mean_probs(network: nn.Module, views: list[Tensor], *, frozen: bool = False) -> Tensor:
    """(b, C): the network's mean prediction over views of the same rows, in one pass.

    A frozen network predicts in evaluation mode, one that is being trained as it is.
    """
    was = network.training
    network.train(was and not frozen)
    try:
        probs: Tensor = network(torch.cat(views)).logits.float().softmax(-1)
    finally:
        network.train(was)
    return torch.stack(probs.chunk(len(views))).mean(0)


def guess(predictions: list[Tensor], temperature: float) -> Tensor:
    """Sharpened mean prediction of several networks: targets for labels that are not trusted."""
    return sharpen(torch.stack(predictions).mean(0), temperature)


def linear_ramp(now: float, length: float) -> float:
    """From 0 at 0 to 1 at `length`; always 1 for length 0."""
    return min(max(now / length, 0.0), 1.0) if length > 0 else 1.0


def mixmatch(
    network: nn.Module,
    labelled: Side | None,
    unlabelled: Side | None,
    context: Context,
    *,
    alpha: float,
    weight: float,
    penalty: float,
) -> Losses:
    """MixMatch on two sides: labelled rows, and rows whose labels are guessed.

        L = L_x + weight L_u + penalty,    L_x = cross-entropy on the labelled side,
                                           L_u = mean over rows and classes of (p - q)^2

    The views of both sides are mixed with each other, in one forward pass. A side that is None has
    no rows.
    """
    sides = [side for side in (labelled, unlabelled) if side is not None]
    inputs = torch.cat([view for side in sides for view in side.views])
    targets = torch.cat([side.targets.repeat(len(side.views), 1) for side in sides])
    ranks = context.ranks
    mix = draw_mix(len(inputs) * ranks.world, alpha, context.generator, ranks)
    logits, mixed = network(mix(inputs)).logits, mix(targets)
    losses, border = Losses(), 0
    if labelled is not None:
        border = len(labelled.views) * len(labelled.targets)
        losses["labelled"] = cross_entropy(logits[:border], mixed[:border])
    if unlabelled is not None:
        error = logits[border:].float().softmax(-1) - mixed[border:]
        losses["unlabelled"] = weight * error.square().mean()
    if penalty:
        losses["penalty"] = penalty * prior_penalty(logits, ranks)
    return losses
