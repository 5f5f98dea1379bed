"""Decoupling: two networks learn only from the rows on which they disagree.

With m_i = [argmax p1(x_i) != argmax p2(x_i)], or 1 in the warm-up, each network minimises

    sum_i m_i CE(p(x_i), y_i) / max(0.1 B, sum_i m_i)

where 0.1 B keeps a few disagreeing rows from dominating a step.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.core.batches import one_stream
from csot.methods.core.contract import Batch, Losses, Method, Role, Settings, Steps, Stream
from csot.methods.core.networks import peer_logits
from csot.methods.parts.losses import each_cross_entropy
from csot.methods.parts.small_loss import mean_over


class DecouplingSettings(Settings):
    warmup: int = Field(0, ge=0)
    """Epochs in which both networks learn from all rows."""
    least_share: float = Field(0.1, ge=0, le=1)
    """The divisor is at least this share of the batch."""


class Decoupling(Method):
    Settings: ClassVar[type[Settings]] = DecouplingSettings
    about = "two networks that learn only from the rows they disagree on"
    reference = "Malach and Shalev-Shwartz, NIPS 2017"
    network_count = 2
    separate = True
    settings: DecouplingSettings

    def steps(self, epoch: int) -> Steps:
        """Rows without a label are left out."""
        role = Role.WARMUP if epoch <= self.settings.warmup else Role.TRAIN
        return one_stream(self.context, Stream(role), only_labelled=True)

    def forward(self, batch: Batch) -> Losses:
        [(stream, part)], ranks = batch.items(), self.context.ranks
        logits = peer_logits(self.networks, part, self.context)
        disputed: Tensor = logits[0].argmax(-1) != logits[1].argmax(-1)
        mask = torch.ones_like(disputed) if stream.role is Role.WARMUP else disputed
        least = max(1.0, self.settings.least_share * part.whole)
        return {
            f"network{number}": mean_over(
                each_cross_entropy(seen, part.labels), mask, ranks, least=least
            )
            for number, seen in enumerate(logits, 1)
        }
