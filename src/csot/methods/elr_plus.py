"""ELR+: two networks, mixup, and targets that come from the other network's averaged weights.

Network k sees mixed samples x~ = l x_i + (1 - l) x_j and minimises

    cross-entropy(p(x~), l y_i + (1 - l) y_j) + lambda(s) (1/B) sum log(1 - <q, p(x~)>)
    q = l t_i + (1 - l) t_j,        t_i <- beta t_i + (1 - beta) p(x_i),

where the p of the last line is that of the other network's weight average on the unmixed sample,
and s counts the steps. The networks take turns, an epoch each.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

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
    averaged,
    cross_entropy,
    follow,
    one_hot,
    regulariser,
    remember,
    sigmoid_ramp,
    target_posterior,
)
from csot.methods.parts.mixing import draw_mix


class ElrPlusSettings(Settings):
    momentum: float = Field(0.7, ge=0, lt=1)
    """beta: share of a target that is kept at each update."""
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
    (not in the paper)."""


class ElrPlus(Method):
    Settings: ClassVar[type[Settings]] = ElrPlusSettings
    about = "ELR with mixup, two networks and averaged weights that give each other targets"
    reference = "Liu, Niles-Weed, Razavian and Fernandez-Granda, NeurIPS 2020"
    network_count = 2
    settings: ElrPlusSettings

    targets: Tensor
    steps_taken: Tensor

    def prepare(self) -> None:
        self.averages = nn.ModuleList([averaged(network) for network in self.networks])
        shape = 2, len(self.context.labels), self.context.num_classes
        self.register_buffer("targets", torch.zeros(shape))
        self.register_buffer("steps_taken", torch.zeros(2, dtype=torch.long))

    def steps(self, epoch: int) -> Steps:
        for number in range(2):
            yield from one_stream(self.context, Stream(Role.TRAIN, number))

    def forward(self, batch: Batch) -> Losses:
        settings, context = self.settings, self.context
        [(stream, part)] = batch.items()
        number = stream.network
        weak = context.weak_view(part)
        mix = draw_mix(part.whole, settings.mixup_alpha, context.generator, context.ranks)
        with torch.no_grad():
            # In training mode: the average has its own batch statistics.
            probs = self.averages[1 - number](weak).logits.float().softmax(-1)
        kept = remember(self.targets[number], part.rows, probs, settings.momentum, context.ranks)
        targets = mix(kept)
        labels = mix(one_hot(part.labels, context.num_classes))
        if settings.reweighted_labels:
            labels = labels * targets
            labels = labels / labels.sum(-1, keepdim=True).clamp(min=1e-12)
        logits = self.networks[number](mix(weak)).logits
        ramp = sigmoid_ramp(int(self.steps_taken[number]) + 1, settings.weight_ramp)
        return {
            "cross_entropy": cross_entropy(logits, labels),
            "regulariser": ramp * settings.weight * regulariser(logits, targets),
        }

    def after_step(self, batch: Batch) -> None:
        number = next(iter(batch)).network
        self.steps_taken[number] += 1
        step, settings = int(self.steps_taken[number]) + 1, self.settings
        decay = settings.average_decay * sigmoid_ramp(step, settings.average_ramp)
        if settings.average_ramp == 0:
            decay = min(1 - 1 / step, settings.average_decay)
        follow(self.averages[number], self.networks[number], decay)

    def judge(self) -> Judgement:
        """Judge by the running targets of both; held-out rows, which have none, by the networks."""
        probs = super().judge().posterior
        posterior = target_posterior(self.targets.mean(0), probs)
        return Judgement.from_probs(posterior, self.context.labels)
