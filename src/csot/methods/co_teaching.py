"""Co-teaching: each network learns from the rows of small loss that its peer has picked.

Of every batch of B rows, network a picks D_a = the int((1 - R) B) rows of smallest CE(p_a, y), and

    loss = mean of CE(p_1, y) over D_2 + mean of CE(p_2, y) over D_1

R rises linearly from 0 to the noise rate over the first epochs. The original is given the noise
rate; here it is estimated during the rise (`parts/small_loss`), unless `noise_rate` is set. The
original's code divides the mean by the number of rows a second time, which Adam hides: not copied.
"""

from __future__ import annotations

from typing import Any, ClassVar

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
from csot.methods.core.networks import peer_logits
from csot.methods.parts.losses import each_cross_entropy
from csot.methods.parts.small_loss import NoiseRate, mean_over, smallest

LATE_BETA = 0.1
"""Adam's first beta in late epochs."""


class CoTeachingSettings(Settings):
    noise_rate: float | None = Field(None, ge=0, lt=1)
    """Share of wrong labels if it is known; else it is estimated."""
    gradual: int = Field(10, ge=1)
    """Epochs over which R rises; afterwards the estimate is fixed."""
    late: int = Field(80, ge=0)
    """Epochs after which Adam's first beta is 0.1; other optimisers have none."""


class CoTeaching(Method):
    Settings: ClassVar[type[Settings]] = CoTeachingSettings
    about = "two networks, each trained on what its peer finds easy; estimates the noise rate"
    reference = "Han et al., NeurIPS 2018"
    network_count = 2
    separate = True
    settings: CoTeachingSettings

    forget: Tensor
    """R."""
    kept: Tensor
    """(N, 2) bool: whether each network picked a row when it last saw it."""

    def prepare(self) -> None:
        context = self.context
        given = context.labels[context.rows]
        self.noise = NoiseRate(given, context.num_classes, self.settings.noise_rate)
        self.register_buffer("forget", torch.zeros(()))
        self.register_buffer("kept", torch.zeros(len(context.labels), 2, dtype=torch.bool))

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        gradual = self.settings.gradual
        if self.settings.noise_rate is None and 1 < epoch <= gradual + 1:
            seen = [self.context.predict(net, self.context.rows).probs for net in self.networks]
            self.noise.update(torch.stack(seen).mean(0))
        ramp = min(1.0, (epoch - 1) / max(1, gradual - 1))
        self.forget.fill_(ramp * self.noise.read())
        return {"noise_rate": self.noise.read(), "forget_rate": float(self.forget)}

    def steps(self, epoch: int) -> Steps:
        """Rows without a label are left out: they have no loss to compare."""
        return one_stream(self.context, Stream(Role.TRAIN), only_labelled=True)

    def forward(self, batch: Batch) -> Losses:
        part = next(iter(batch.values()))
        logits = peer_logits(self.networks, part, self.context)
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
        """(b,) bool for each network: the rows it picks for its peer."""
        return self.small(each)

    def small(self, each: list[Tensor], among: Tensor | None = None) -> tuple[Tensor, Tensor]:
        share, ranks = 1 - float(self.forget), self.context.ranks
        first, second = (smallest(losses, share, ranks, among) for losses in each)
        return first, second

    def update_param_group(self, epoch: int, group: dict[str, Any]) -> None:
        if epoch > self.settings.late:
            lower_first_beta(group)

    def split(self) -> Split | None:
        """Labels that both networks picked are trusted; none is replaced."""
        if not bool(self.kept.any()):
            return None
        clean = self.kept.all(-1)
        return Split(clean, torch.zeros_like(clean), self.context.labels)


def lower_first_beta(group: dict[str, Any]) -> None:
    """Lower Adam's first beta to 0.1; parameter groups of other optimisers are left unchanged."""
    if "betas" in group:
        group["betas"] = (LATE_BETA, group["betas"][1])
