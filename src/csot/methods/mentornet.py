"""MentorNet with its predefined curriculum: rows of large loss have no weight, and later less.

m is the moving average of a percentile of each batch's losses l_i, t the share of the training that
is done, in per cent. The weights are

    v_i = 1                                   while t <= burn_in
    v_i = 1[l_i <= m]                         while t <= hard_until
    v_i = clip(1 - (l_i - m) / gamma, 0, 1)   afterwards

Then a random part of each batch is dropped, and the loss is (1/B) sum_i v_i l_i. The mentor that is
itself a network, trained on rows whose true labels are known, is not included.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.core.batches import one_stream
from csot.methods.core.contract import (
    Batch,
    Losses,
    Method,
    Role,
    Settings,
    Split,
    Steps,
    Stream,
)
from csot.methods.parts.losses import each_cross_entropy

TRAIN = Stream(Role.TRAIN)


class MentorNetSettings(Settings):
    percentile: float = Field(0.7, gt=0, le=1)
    """Share of a batch below its percentile loss. The original has 0.75 for 20 and 40 % noise, 0.5
    for 80 %."""
    decay: float = Field(0.5, ge=0, lt=1)
    """Share of m that is kept at each step."""
    burn_in: float = Field(18.0, ge=0, le=100)
    """Per cent of the training."""
    hard_until: float = Field(90.0, ge=0, le=100)
    """Per cent of the training."""
    gamma: float = Field(1.0, gt=0)
    early_dropout: float = Field(0.5, ge=0, lt=1)
    """Share of each batch that is dropped at first."""
    early_until: float = Field(17.0, ge=0, le=100)
    """Per cent of the training."""
    dropout: float = Field(0.05, ge=0, lt=1)
    """Share of each batch that is dropped afterwards."""


class MentorNet(Method):
    Settings: ClassVar[type[Settings]] = MentorNetSettings
    about = "a predefined curriculum: rows of large loss have no weight, random rows are dropped"
    reference = "Jiang, Zhou, Leung, Li and Fei-Fei, ICML 2018"
    settings: MentorNetSettings

    threshold: Tensor
    """m."""
    weights: Tensor
    """(N,) v of each row when it was last seen, before rows were dropped."""

    def prepare(self) -> None:
        self.register_buffer("threshold", torch.zeros(()))
        self.register_buffer("weights", torch.zeros(len(self.context.labels)))
        self.percent = 0.0

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        self.percent = 100 * (epoch - 1) / self.context.epochs
        return {"loss_threshold": float(self.threshold)}

    def steps(self, epoch: int) -> Steps:
        """Rows without a label are left out: they have no loss to compare."""
        return one_stream(self.context, TRAIN, only_labelled=True)

    def forward(self, batch: Batch) -> Losses:
        part, context, ranks = batch[TRAIN], self.context, self.context.ranks
        logits = self.network(context.weak_view(part)).logits
        each = each_cross_entropy(logits, part.labels)
        whole = ranks.gather(each.detach())
        self.threshold.lerp_(percentile(whole, self.settings.percentile), 1 - self.settings.decay)
        weights = curriculum_weights(each.detach(), self.threshold, self.percent, self.settings)
        self.weights[ranks.gather(part.rows)] = ranks.gather(weights)
        kept = self._kept(part.whole).to(weights)
        return {"weighted": (weights * kept * each).mean()}

    def _kept(self, count: int) -> Tensor:
        """(b,) 0 or 1 for this process's rows: 1 for the int((1 - rate) B) rows not dropped."""
        settings = self.settings
        is_early = self.percent < settings.early_until
        rate = settings.early_dropout if is_early else settings.dropout
        # Compensates for rounding: (1 - 0.3) * 10 is 7.
        remaining = int((1 - rate) * count + 1e-6)
        order = torch.randperm(count, generator=self.context.generator)
        return (order < remaining).float()[self.context.ranks.share(count)]

    def split(self) -> Split | None:
        """Labels with at least half of the weight are trusted; none is replaced."""
        if not bool(self.weights.any()):
            return None
        clean = self.weights >= 0.5
        return Split(clean, torch.zeros_like(clean), self.context.labels)


def percentile(losses: Tensor, share: float) -> Tensor:
    """The loss nearest to the percentile."""
    return losses.float().quantile(share, interpolation="nearest")


def curriculum_weights(
    losses: Tensor, threshold: Tensor, percent: float, settings: MentorNetSettings
) -> Tensor:
    """(b,) v."""
    if percent <= settings.burn_in:
        return torch.ones_like(losses)
    above = losses - threshold
    if percent <= settings.hard_until:
        return (above <= 0).to(losses)
    return (1 - above / settings.gamma).clamp(0, 1)
