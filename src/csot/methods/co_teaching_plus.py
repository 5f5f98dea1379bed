"""Co-teaching+: Co-teaching on the rows that the two networks disagree on.

For the first epochs it is Co-teaching. Then each network picks from

    {i : argmax p_1(x_i) != argmax p_2(x_i)}

the share 1 - R of smallest loss (all of them if that is none), and its peer learns from these. If
no row of a batch is disputed, both learn from all of it during the first steps. What the original's
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
from csot.methods.parts.selection import total


class CoTeachingPlusSettings(CoTeachingSettings):
    plain: int = Field(20, ge=0)
    """Epochs of plain Co-teaching."""
    agreeing_steps: int = Field(5000, ge=0)
    """Steps after which a batch without disputed rows is skipped."""


class CoTeachingPlus(CoTeaching):
    Settings: ClassVar[type[Settings]] = CoTeachingPlusSettings
    about = "co-teaching on the rows the two networks disagree on; estimates the noise rate"
    reference = "Yu et al., ICML 2019"
    settings: CoTeachingPlusSettings

    steps_taken: Tensor

    def prepare(self) -> None:
        super().prepare()
        self.register_buffer("steps_taken", torch.zeros((), dtype=torch.long))

    def steps(self, epoch: int) -> Steps:
        role = Role.WARMUP if epoch <= self.settings.plain else Role.TRAIN
        return one_stream(self.context, Stream(role), only_labelled=True)

    def picks(
        self, batch: Batch, logits: tuple[Tensor, Tensor], each: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        self.steps_taken.add_(1)
        if Stream(Role.WARMUP) in batch:
            return self.small(each)
        disputed: Tensor = logits[0].argmax(-1) != logits[1].argmax(-1)
        if total(disputed, self.context.ranks):
            return self.small(each, among=disputed)
        uses_all = int(self.steps_taken) <= self.settings.agreeing_steps
        all_or_none = torch.full_like(disputed, uses_all)
        return all_or_none, all_or_none
