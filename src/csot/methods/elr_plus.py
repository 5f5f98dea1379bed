"""ELR+: two networks, mixup, and targets that come from the other network's averaged weights.

Network k sees mixed samples x~ = l x_i + (1 - l) x_j and minimises

    cross-entropy(p(x~), l y_i + (1 - l) y_j) + lambda(s) (1/B) sum log(1 - <q, p(x~)>)
    q = l t_i + (1 - l) t_j,        t_i <- beta t_i + (1 - beta) p(x_i),

where the p of the last line is that of the other network's weight average on the unmixed sample,
and s counts the steps. The networks take turns, an epoch each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from csot.methods.core.batches import full_batches
from csot.methods.core.contract import Batch, Judgement, Losses, Settings
from csot.methods.core.networks import TwoNetworks, judge_by_probabilities
from csot.methods.parts.early_learning import (
    averaged,
    follow,
    regulariser,
    remember,
    sigmoid_ramp,
    target_posterior,
)
from csot.methods.parts.losses import cross_entropy, one_hot
from csot.methods.parts.mixing import draw_mix


class ElrPlusSettings(Settings):
    momentum: float = Field(0.7, ge=0, lt=1)
    """beta: how much of a target is kept at each visit."""
    weight: float = Field(3.0, ge=0)
    """lambda."""
    weight_ramp: int = Field(0, ge=0)
    """Steps over which lambda rises; 0 for none."""
    mixup_alpha: float = Field(1.0, gt=0)
    average_decay: float = Field(0.997, ge=0, lt=1)
    average_ramp: int = Field(40_000, ge=0)
    """Steps over which the decay rises; with 0 it is min(1 - 1/(s + 1), decay)."""
    reweighted_labels: bool = False
    """Whether mixed labels are multiplied by q and normalised, as the original does for CIFAR-100
    (no formula of the paper)."""


class ElrPlus(TwoNetworks):
    Settings: ClassVar[type[Settings]] = ElrPlusSettings
    about = "ELR with mixup, two networks and averaged weights that give each other targets"
    reference = "Liu, Niles-Weed, Razavian and Fernandez-Granda, NeurIPS 2020"
    settings: ElrPlusSettings

    targets: Tensor
    taken: Tensor

    def prepare(self) -> None:
        super().prepare()
        self.averages = nn.ModuleList([averaged(network) for network in self.networks])
        shape = 2, len(self.context.labels), self.context.num_classes
        self.register_buffer("targets", torch.zeros(shape))
        self.register_buffer("taken", torch.zeros(2, dtype=torch.long))

    def steps(self, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        rows, size = self.context.rows, self.context.batch_size
        for number in range(2):
            for batch in full_batches(rows, size, self.context.order):
                yield {str(number): batch}

    def forward(self, batch: Batch) -> Losses:
        settings, context = self.settings, self.context
        [(name, part)] = batch.items()
        number = int(name)
        weak = part.view(context.views.weak, context.generator)
        mix = draw_mix(part.whole, settings.mixup_alpha, context.generator, context.ranks)
        with torch.no_grad():
            # In training mode, as the average's own statistics are those of the batches it sees.
            probs = self.averages[1 - number](weak).logits.float().softmax(-1)
        kept = remember(self.targets[number], part.rows, probs, settings.momentum, context.ranks)
        targets = mix(kept)
        labels = mix(one_hot(part.labels, context.num_classes))
        if settings.reweighted_labels:
            labels = labels * targets
            labels = labels / labels.sum(-1, keepdim=True).clamp(min=1e-12)
        logits = self.networks[number](mix(weak)).logits
        ramp = sigmoid_ramp(int(self.taken[number]) + 1, settings.weight_ramp)
        return {
            "cross_entropy": cross_entropy(logits, labels),
            "regulariser": ramp * settings.weight * regulariser(logits, targets),
        }

    def after_step(self, batch: Batch) -> None:
        number = int(next(iter(batch)))
        self.taken[number] += 1
        step, settings = int(self.taken[number]) + 1, self.settings
        decay = settings.average_decay * sigmoid_ramp(step, settings.average_ramp)
        if settings.average_ramp == 0:
            decay = min(1 - 1 / step, settings.average_decay)
        follow(self.averages[number], self.networks[number], decay)

    def judge(self) -> Judgement:
        """By the running targets of both; rows that were held out have none."""
        probs = super().judge().posterior
        return judge_by_probabilities(
            target_posterior(self.targets.mean(0), probs), self.context.labels
        )
