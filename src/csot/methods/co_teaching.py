"""Co-teaching: each network learns from the rows of small loss that its peer has picked.

Of every batch of B rows, network a picks D_a = the int((1 - R) B) rows of smallest CE(p_a, y), and

    loss = mean of CE(p_1, y) over D_2 + mean of CE(p_2, y) over D_1

R rises from 0 to the noise rate in a straight line over the first epochs. The original is told the
noise rate; here it is estimated meanwhile (`_noise_rate`), unless `noise_rate` is set. Its code
divides the mean by the number of rows once more, which Adam hides: not copied.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.core.contract import Batch, Losses, Settings, Split
from csot.methods.core.networks import Peers
from csot.methods.parts.losses import each_cross_entropy
from csot.methods.parts.noise_rate import NoiseRate
from csot.methods.parts.selection import forget_faster, mean_over, smallest


class CoTeachingSettings(Settings):
    noise_rate: float | None = Field(None, ge=0, lt=1)
    """Share of wrong labels, for those who know it; else it is estimated."""
    gradual: int = Field(10, ge=1)
    """Epochs over which R rises, and after which the estimate stays."""
    late: int = Field(80, ge=0)
    """Epochs after which Adam's first beta is 0.1; other optimisers have none."""


class CoTeaching(Peers):
    Settings: ClassVar[type[Settings]] = CoTeachingSettings
    about = "two networks, each trained on what its peer finds easy; estimates the noise rate"
    reference = "Han et al., NeurIPS 2018"
    settings: CoTeachingSettings

    forget: Tensor
    kept: Tensor

    def prepare(self) -> None:
        context = self.context
        super().prepare()
        given = context.labels[context.rows]
        self.noise = NoiseRate(given, context.num_classes, self.settings.noise_rate)
        self.register_buffer("forget", torch.zeros(()))
        # Whether each network picked a row when it last saw it.
        self.register_buffer("kept", torch.zeros(len(context.labels), 2, dtype=torch.bool))

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        gradual = self.settings.gradual
        if self.settings.noise_rate is None and 1 < epoch <= gradual + 1:
            seen = [self.context.predict(net, self.context.rows).probs for net in self.networks]
            self.noise.look(torch.stack(seen).mean(0))
        ramp = min(1.0, (epoch - 1) / max(1, gradual - 1))
        self.forget.fill_(ramp * self.noise.read())
        return {"noise_rate": self.noise.read(), "forget_rate": float(self.forget)}

    def forward(self, batch: Batch) -> Losses:
        part = next(iter(batch.values()))
        logits = self.logits_of(part)
        each = [each_cross_entropy(seen, part.labels) for seen in logits]
        first, second = self.picks(batch, logits, each)
        ranks = self.context.ranks
        self.kept[ranks.gather(part.rows)] = ranks.gather(torch.stack([first, second], 1))
        return {
            "network1": mean_over(each[0], second, ranks),
            "network2": mean_over(each[1], first, ranks),
        }

    def picks(
        self, batch: Batch, logits: tuple[Tensor, Tensor], each: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """(b,) bool for each network: the rows it hands to its peer."""
        return self.small(each)

    def small(self, each: list[Tensor], among: Tensor | None = None) -> tuple[Tensor, Tensor]:
        share, ranks = 1 - float(self.forget), self.context.ranks
        first, second = (smallest(losses, share, ranks, among) for losses in each)
        return first, second

    def tune(self, epoch: int, group: dict[str, Any]) -> None:
        if epoch > self.settings.late:
            forget_faster(group)

    def split(self) -> Split | None:
        """A label is trusted that both networks have picked; none is replaced."""
        if not bool(self.kept.any()):
            return None
        clean = self.kept.all(-1)
        return Split(clean, torch.zeros_like(clean), self.context.labels)
