"""Co-teaching+: Co-teaching on the rows that the two networks disagree on.

For the first epochs it is Co-teaching. Then each network picks from

    {i : argmax p_1(x_i) != argmax p_2(x_i)}

the share 1 - R of smallest loss, all of them if that is none, and its peer learns from these. Where
nothing in a batch is disputed, both learn from all of it, for the first steps at least. What the
original's code adds is left out: a second softmax, a second division, and the loss of row 0.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.co_teaching import CoTeaching, CoTeachingSettings
from csot.methods.core.contract import Batch, Settings
from csot.methods.parts.selection import total


class CoTeachingPlusSettings(CoTeachingSettings):
    plain: int = Field(20, ge=0)
    """Epochs of plain Co-teaching."""
    agreeing_steps: int = Field(5000, ge=0)
    """Steps after which a batch without dispute teaches nothing."""


class CoTeachingPlus(CoTeaching):
    Settings: ClassVar[type[Settings]] = CoTeachingPlusSettings
    about = "co-teaching on the rows the two networks disagree on; estimates the noise rate"
    reference = "Yu et al., ICML 2019"
    settings: CoTeachingPlusSettings

    done: Tensor

    def prepare(self) -> None:
        super().prepare()
        self.register_buffer("done", torch.zeros((), dtype=torch.long))

    def stream(self, epoch: int) -> str:
        return "plain" if epoch <= self.settings.plain else "disputed"

    def picks(
        self, batch: Batch, logits: tuple[Tensor, Tensor], each: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        self.done.add_(1)
        if "plain" in batch:
            return self.small(each)
        disputed: Tensor = logits[0].argmax(-1) != logits[1].argmax(-1)
        if total(disputed, self.context.ranks):
            return self.small(each, among=disputed)
        all_or_none = torch.full_like(disputed, int(self.done) <= self.settings.agreeing_steps)
        return all_or_none, all_or_none
