"""Co-teaching+: Co-teaching on the rows that the two networks disagree on.

For the first epochs it is Co-teaching. Then each network picks from

    {i : argmax p_1(x_i) != argmax p_2(x_i)}

the share 1 - R of smallest loss (all of them if that is none), and its peer learns from these. If
no row of a batch is disputed, both learn from all of it in early epochs. What the original's
code adds is left out: a second softmax, a second division, and the loss of row 0.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.co_teaching import CoTeaching, CoTeachingSettings
from csot.methods.core.batches import one_stream
from csot.methods.core.contract import Batch, Role, Settings, Steps, Stream
from csot.methods.parts.small_loss import total


class CoTeachingPlusSettings(CoTeachingSettings):
    plain: int = Field(20, ge=0)
    """Epochs of plain Co-teaching."""
    agreeing_steps: int = Field(5000, ge=0)
    """A batch without disputed rows is skipped unless the epoch times the number of the step in it,
    counted from 0, is below this: the original's test."""


class CoTeachingPlus(CoTeaching):
    Settings: ClassVar[type[Settings]] = CoTeachingPlusSettings
    about = "co-teaching on the rows the two networks disagree on; estimates the noise rate"
    reference = "Yu et al., ICML 2019"
    settings: CoTeachingPlusSettings

    def prepare(self) -> None:
        super().prepare()
        self.epoch = self.step = 0

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        self.epoch, self.step = epoch, 0
        return super().begin_epoch(epoch)

    def steps(self, epoch: int) -> Steps:
        role = Role.WARMUP if epoch <= self.settings.plain else Role.TRAIN
        return one_stream(self.context, Stream(role), only_labelled=True)

    def picks(
        self, batch: Batch, logits: tuple[Tensor, Tensor], each: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        step, self.step = self.step, self.step + 1
        if Stream(Role.WARMUP) in batch:
            return self.small(each)
        disputed: Tensor = logits[0].argmax(-1) != logits[1].argmax(-1)
        if total(disputed, self.context.ranks):
            return self.small(each, among=disputed)
        uses_all = self.epoch * step < self.settings.agreeing_steps
        all_or_none = torch.full_like(disputed, uses_all)
        return all_or_none, all_or_none
