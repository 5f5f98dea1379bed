"""ELR: early learning regularisation, one network.

    L = cross-entropy + lambda (1/B) sum_i log(1 - <t_i, p_i>)

with t_i the running mean of the network's own predictions for sample i (`parts/losses`).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.core.batches import one_stream
from csot.methods.core.contract import (
    Batch,
    Judgement,
    Losses,
    Method,
    Role,
    Settings,
    Steps,
    Stream,
)
from csot.methods.parts.losses import (
    clipped_probs,
    cross_entropy,
    regulariser,
    remember,
    target_posterior,
)

TRAIN = Stream(Role.TRAIN)


class ElrSettings(Settings):
    momentum: float = Field(0.7, ge=0, lt=1)
    """beta: share of a target that is kept at each update."""
    weight: float = Field(3.0, ge=0)
    """lambda."""


class Elr(Method):
    Settings: ClassVar[type[Settings]] = ElrSettings
    about = "hold each prediction to the running mean of earlier ones"
    reference = "Liu, Niles-Weed, Razavian and Fernandez-Granda, NeurIPS 2020"
    settings: ElrSettings

    targets: Tensor

    def prepare(self) -> None:
        shape = len(self.context.labels), self.context.num_classes
        self.register_buffer("targets", torch.zeros(shape))

    def steps(self, epoch: int) -> Steps:
        return one_stream(self.context, TRAIN)

    def forward(self, batch: Batch) -> Losses:
        part, settings, context = batch[TRAIN], self.settings, self.context
        logits = self.network(context.weak_view(part)).logits
        probs = clipped_probs(logits.detach())
        probs = probs / probs.sum(-1, keepdim=True)
        targets = remember(self.targets, part.rows, probs, settings.momentum, context.ranks)
        return {
            "cross_entropy": cross_entropy(logits, part.labels),
            "regulariser": settings.weight * regulariser(logits, targets),
        }

    def judge(self) -> Judgement:
        """Judge by the running targets; held-out rows, which have none, by the network."""
        probs = self.context.predict(self.network, self.context.all_rows).probs
        return Judgement.from_probs(target_posterior(self.targets, probs), self.context.labels)
