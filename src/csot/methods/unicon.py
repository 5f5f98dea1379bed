"""UniCon: the same number of labels is kept in each class, and all other rows are contrasted.

d_i is the Jensen-Shannon divergence (natural logarithm) between the mean prediction of two networks
and the given label. Every epoch after the warm-up, R is the share of rows with d_i below the mean
of all d, and in each class the R N / C labels of smallest d are kept. The networks take turns
(`core/networks`), with the same split for both. A turn minimises MixMatch (`parts/mixing`) on
strong views, with targets guessed on weak views as in DivideMix, and

    w_i = 1 if d_i < 1/2, else 1 - d_i                            trust in a kept label
    weight_c * SimCLR(g(z), g(z'))                                two strong views of rows not kept

with g a linear head. The split is computed again between the turns. The original lowers the mean
if it exceeds 0.7, which is never the case: d is at most log 2.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from csot.methods.core.contract import (
    Batch,
    Losses,
    Method,
    Part,
    Settings,
    Split,
    Steps,
    feature_dim,
    label_probs,
)
from csot.methods.core.networks import Turns, WarmupSettings
from csot.methods.parts.losses import pair_contrast, refine, whole_batch
from csot.methods.parts.mixing import Side, guess, linear_ramp, mean_probs, mixmatch
from csot.methods.parts.small_loss import first_of_each_class
from csot.nets.layers import Norm, norm_1d

GRANULE, LARGEST = 8, 8
"""Batches of unlabelled rows are a multiple of GRANULE, and at most LARGEST times the labelled
ones."""


class UniconSettings(WarmupSettings):
    unlabelled_weight: float = Field(30.0, ge=0)
    """lambda_u."""
    ramp_epochs: float = Field(16.0, ge=0)
    """Epochs after the warm-up over which lambda_u rises."""
    contrast_weight: float = Field(0.025, ge=0)
    """weight_c."""
    contrast_temperature: float = Field(0.05, gt=0)
    unlabelled_share: float = Field(0.5, gt=0)
    """Batches of unlabelled rows, in units of the batch size divided by R. Its author recommends 1
    for high noise."""
    head_dim: int = Field(128, ge=1)
    head_norm: Norm = "batch"
    second_look: bool = True
    """Whether labels are judged again before the second network's turn, as in the original."""
    temperature: float = Field(0.5, gt=0)
    mixup_alpha: float = Field(4.0, gt=0)
    prior_penalty: float = Field(1.0, ge=0)


class Unicon(Method):
    Settings: ClassVar[type[Settings]] = UniconSettings
    about = "two networks keep as many labels of each class, then MixMatch and contrast"
    reference = "Karim, Rizve, Rahnavard, Mian and Shah, CVPR 2022"
    network_count = 2
    settings: UniconSettings

    guessed: Tensor
    """(N,) labels that both networks predict together."""

    def prepare(self) -> None:
        settings = self.settings
        self.turns = Turns(
            self.context, settings, led_by_labelled=True, second_look=settings.second_look
        )
        dim, norm = settings.head_dim, settings.head_norm
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Linear(feature_dim(network), dim), norm_1d(norm, dim))
            for network in self.networks
        )
        self.register_buffer("guessed", torch.full((len(self.context.labels),), -1))

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        self.turns.begin_epoch(epoch)
        if self.turns.is_warmup(epoch):
            return {"stage": 0}
        self._select(self.context.rows)
        return {"stage": 1, "clean": self.turns.mean_clean()}

    def turn_count(self, epoch: int) -> int:
        return self.turns.count(epoch)

    def begin_turn(self, epoch: int, turn: int) -> None:
        self.turns.turn = turn
        self._select(self.context.rows)

    def _select(self, rows: Tensor) -> None:
        """Set the trust in each label, which labels are kept, and the labels guessed together."""
        turns = self.turns
        given, from_first = self.context.labels[rows], self.context.ranks.from_first
        seen = [self.context.predict(network, rows).probs for network in self.networks]
        probs = from_first(torch.stack(seen).mean(0))
        divergence = js_to_label(probs, given)
        kept, share = select_evenly(divergence, given, self.context.num_classes)
        turns.trust[:, rows] = torch.where(divergence < 0.5, 1.0, 1 - divergence)
        turns.clean[:, rows] = kept
        turns.unlabelled_batch = self._unlabelled_batch(share)
        self.guessed[rows] = probs.argmax(-1)

    def _unlabelled_batch(self, share: float) -> int:
        """Batch size, rounded so that it is the same for up to eight processes."""
        size = self.context.batch_size
        granule = math.lcm(GRANULE, self.context.ranks.world)
        wanted = min(LARGEST * size, size * self.settings.unlabelled_share / max(share, 1e-6))
        return granule * max(1, round(wanted / granule))

    def steps(self, epoch: int) -> Steps:
        return self.turns.steps(epoch)

    def forward(self, batch: Batch) -> Losses:
        if warmup := self.turns.warmup_losses(self.networks, batch):
            return warmup
        number, labelled, unlabelled = self.turns.parts(batch)
        settings = self.settings
        ramp = linear_ramp(self.turns.trained_epochs(number), settings.ramp_epochs)
        kept = None if labelled is None else self._refined(number, labelled)
        rest = None if unlabelled is None else self._co_guessed(number, unlabelled)
        losses = mixmatch(
            self.networks[number],
            kept,
            rest,
            self.context,
            alpha=settings.mixup_alpha,
            weight=settings.unlabelled_weight * ramp,
            penalty=settings.prior_penalty,
        )
        if rest is not None and settings.contrast_weight:
            losses["contrast"] = settings.contrast_weight * self._contrast(number, rest.views)
        return losses

    def _refined(self, number: int, part: Part) -> Side:
        weak, strong = self._views(part)
        trust, probs = self.turns.trust[number, part.rows], mean_probs(self.networks[number], weak)
        return Side(strong, refine(part.labels, probs, trust, self.settings.temperature))

    def _co_guessed(self, number: int, part: Part) -> Side:
        weak, strong = self._views(part)
        own = mean_probs(self.networks[number], weak)
        other = mean_probs(self.networks[1 - number], weak, frozen=True)
        return Side(strong, guess([own, other], self.settings.temperature))

    def _views(self, part: Part) -> tuple[list[Tensor], list[Tensor]]:
        """Two weak and two strong views."""
        weak = [self.context.weak_view(part) for _ in range(2)]
        return weak, [self.context.strong_view(part) for _ in range(2)]

    def _contrast(self, number: int, views: list[Tensor]) -> Tensor:
        network, head, ranks = self.networks[number], self.heads[number], self.context.ranks
        units = [F.normalize(head(network(view).features).float(), dim=-1) for view in views]
        first, second = (whole_batch(one, ranks) for one in units)
        return pair_contrast(first, second, self.settings.contrast_temperature)

    def after_step(self, batch: Batch) -> None:
        self.turns.after_step(batch)

    def split(self) -> Split | None:
        if not bool(self.turns.has_split):
            return None
        clean = self.turns.clean[0]
        return Split(clean, ~clean, self.guessed)


def js_to_label(probs: Tensor, labels: Tensor) -> Tensor:
    """(n,) Jensen-Shannon divergence of a prediction p from the one-hot vector of its label y.

        JS = log 2 + (p_y log p_y - (1 + p_y) log(1 + p_y)) / 2,    natural logarithm

    It depends on p_y only. Without a label it is log 2, the largest value.
    """
    p = torch.where(labels >= 0, label_probs(probs, labels), 0.0)
    return math.log(2) + (torch.xlogy(p, p) - torch.xlogy(1 + p, 1 + p)) / 2


def select_evenly(divergence: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, float]:
    """(n,) bool, the int(R N / C) rows of smallest divergence in each class; and R.

    N counts the rows with a label. Of a class with fewer rows, all are taken.
    """
    labelled = labels >= 0
    if not bool(labelled.any()):
        return torch.zeros_like(labelled), 0.0
    below = divergence[labelled] < divergence[labelled].mean()
    size = int(below.sum()) // classes
    order = divergence.argsort(stable=True)
    kept = first_of_each_class(order, labels, size, classes)
    return kept, float(below.float().mean())
