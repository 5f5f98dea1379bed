"""ELR: early learning regularisation, one network.

    L = cross-entropy + lambda (1/B) sum_i log(1 - <t_i, p_i>)

with t_i the running mean of the network's own predictions of sample i (`_elr`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.core.batches import full_batches
from csot.methods.core.contract import Batch, Judgement, Losses, Settings
from csot.methods.core.networks import SingleNetwork, judge_by_probabilities
from csot.methods.parts.early_learning import clipped_probs, regulariser, remember, target_posterior
from csot.methods.parts.losses import cross_entropy


class ElrSettings(Settings):
    momentum: float = Field(0.7, ge=0, lt=1)
    """beta: how much of a target is kept at each visit."""
    weight: float = Field(3.0, ge=0)
    """lambda."""


class Elr(SingleNetwork):
    Settings: ClassVar[type[Settings]] = ElrSettings
    about = "hold each prediction to the running mean of earlier ones"
    reference = "Liu, Niles-Weed, Razavian and Fernandez-Granda, NeurIPS 2020"
    settings: ElrSettings

    targets: Tensor

    def prepare(self) -> None:
        super().prepare()
        shape = len(self.context.labels), self.context.num_classes
        self.register_buffer("targets", torch.zeros(shape))

    def steps(self, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        rows, size = self.context.rows, self.context.batch_size
        for batch in full_batches(rows, size, self.context.order):
            yield {"all": batch}

    def forward(self, batch: Batch) -> Losses:
        part, settings, context = batch["all"], self.settings, self.context
        logits = self.network(part.view(context.views.weak, context.generator)).logits
        probs = clipped_probs(logits.detach())
        probs = probs / probs.sum(-1, keepdim=True)
        targets = remember(self.targets, part.rows, probs, settings.momentum, context.ranks)
        return {
            "cross_entropy": cross_entropy(logits, part.labels),
            "regulariser": settings.weight * regulariser(logits, targets),
        }

    def judge(self) -> Judgement:
        """By the running targets; rows that were held out have none."""
        probs = self.context.predict(self.network, self.context.everyone).probs
        return judge_by_probabilities(target_posterior(self.targets, probs), self.context.labels)
