"""MLNT: a network that stays consistent with its teacher after a step on more label noise.

After a warm-up by cross-entropy, a frozen copy of the network finds neighbours. In each step a
share of the batch's labels is replaced, M times over, by the label of one of the nearest rows of
the batch, chosen at random. With L_m the cross-entropy of such labels, on the weak view,

    theta_m = theta - meta_rate * grad L_m
    L = cross-entropy of the given labels
        + (w / M) sum_m (1/BC) sum_ik q_ik log(q_ik / p_ik(theta_m))

where q is the prediction of the teacher, the running average of theta. The gradient of the second
term is taken at theta_m (first order), which the original's code intends; by a slip its
second-order terms remain. The original repeats all this with filtered labels: not included.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import kl_div

from csot.methods.core.batches import one_stream
from csot.methods.core.contract import Batch, Losses, Method, Part, Role, Settings, Steps, Stream
from csot.methods.core.networks import WarmupSettings, warmup_loss
from csot.methods.parts.losses import averaged, cross_entropy, follow, sigmoid_ramp
from csot.methods.parts.neighbours import nearest_others

WARMUP, TRAIN = Stream(Role.WARMUP), Stream(Role.TRAIN)


class MlntSettings(WarmupSettings):
    warmup_batch_factor: int = Field(1, ge=1)
    perturbations: int = Field(10, ge=1)
    """M."""
    perturbed: float = Field(0.5, ge=0, le=1)
    """Share of a batch's labels that is replaced."""
    neighbours: int = Field(10, ge=1)
    meta_rate: float = Field(0.02, gt=0)
    weight: float = Field(1.0, ge=0)
    """w, after its rise."""
    ramp_steps: int = Field(1500, ge=0)
    """Steps after the warm-up over which w rises."""
    early_decay: float = Field(0.99, ge=0, lt=1)
    """Share of the teacher that is kept in each step while w rises."""
    decay: float = Field(0.999, ge=0, lt=1)
    """The same afterwards."""


class Mlnt(Method):
    Settings: ClassVar[type[Settings]] = MlntSettings
    about = "a step on further label noise must not part the network from its averaged teacher"
    reference = "Li, Wong, Zhao and Kankanhalli, CVPR 2019"
    settings: MlntSettings

    steps_taken: Tensor
    """Since the warm-up."""

    def prepare(self) -> None:
        self.teacher = averaged(self.network)
        self.guide = averaged(self.network)
        self.register_buffer("steps_taken", torch.zeros((), dtype=torch.long))

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        if epoch <= self.settings.warmup:
            return {"stage": 0}
        if epoch == self.settings.warmup + 1:
            for copy in (self.teacher, self.guide):
                copy.load_state_dict(self.network.state_dict())
        return {"stage": 1, "consistency_weight": self._weight()}

    def _weight(self) -> float:
        ramp = sigmoid_ramp(int(self.steps_taken), self.settings.ramp_steps)
        return self.settings.weight * ramp

    def steps(self, epoch: int) -> Steps:
        if epoch <= self.settings.warmup:
            return one_stream(self.context, WARMUP, batch_factor=self.settings.warmup_batch_factor)
        return one_stream(self.context, TRAIN)

    def forward(self, batch: Batch) -> Losses:
        if WARMUP in batch:
            entropy = self.settings.warmup_entropy
            return {"warmup": warmup_loss(self.network, batch[WARMUP], self.context, entropy)}
        part = batch[TRAIN]
        weak = self.context.weak_view(part)
        logits = self.network(weak).logits
        with torch.no_grad():
            target = self.teacher(weak).logits.float().softmax(-1)
        names = [name for name, value in self.network.named_parameters() if value.requires_grad]
        values = [self.network.get_parameter(name) for name in names]
        total = logits.new_zeros(())
        for labels in self._perturbed_labels(part, weak):
            loss = cross_entropy(logits, labels)
            slopes = torch.autograd.grad(loss, values, retain_graph=True, allow_unused=True)
            moved = {
                name: value
                if slope is None
                else value - self.settings.meta_rate * self._mean(slope)
                for name, value, slope in zip(names, values, slopes, strict=True)
            }
            seen = functional_call(self.network, moved, (weak,)).logits.float().log_softmax(-1)
            total = total + kl_div(seen, target, reduction="none").mean()
        weight = self._weight() / self.settings.perturbations
        return {"cross_entropy": cross_entropy(logits, part.labels), "consistency": weight * total}

    def _mean(self, slope: Tensor) -> Tensor:
        return self.context.ranks.mean(slope)

    def _perturbed_labels(self, part: Part, weak: Tensor) -> list[Tensor]:
        """M times (b,) labels for this process's rows; drawn for the whole batch."""
        settings, ranks, generator = self.settings, self.context.ranks, self.context.generator
        self.guide.eval()
        with torch.no_grad():
            features = ranks.gather(self.guide(weak).features)
        neighbours = nearest_others(features, settings.neighbours).cpu()
        given = ranks.gather(part.labels)
        share = ranks.share(part.whole).to(given.device)
        count = int(settings.perturbed * part.whole)
        return [
            perturb(given, neighbours, count, generator)[share]
            for _ in range(settings.perturbations)
        ]

    def after_step(self, batch: Batch) -> None:
        if TRAIN not in batch:
            return
        settings = self.settings
        is_early = int(self.steps_taken) < settings.ramp_steps
        follow(self.teacher, self.network, settings.early_decay if is_early else settings.decay)
        self.steps_taken += 1


def perturb(labels: Tensor, neighbours: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """(B,) labels, of which `count` are replaced by that of a random one of the neighbours (B, k).

    Which labels are replaced is random, too.
    """
    rows = torch.randperm(len(labels), generator=generator)[:count]
    picks = torch.randint(neighbours.shape[1], (count,), generator=generator)
    found = labels.clone()
    found[rows.to(labels.device)] = labels[neighbours[rows, picks].to(labels.device)]
    return found
