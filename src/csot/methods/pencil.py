"""PENCIL: the labels are parameters too, and learned by gradient descent beside the network.

Every row has logits z, at first K times its one-hot label, and a label distribution q = softmax(z).
With p the prediction, B rows and C classes, means over the batch,

    stage one      CE(p, y)
    stage two      KL(p, q) / C + alpha CE(q, y) + beta H(p) / C,  then  z <- z - lambda dL/dz
    stage three    KL(p, q) / C, the labels frozen

Stage three has its own learning rate, divided by 10 after each third of the stage. (The published
code uses integer division, which makes it zero.)
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

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
    Split,
    Steps,
    Stream,
)
from csot.methods.parts.losses import cross_entropy, each_cross_entropy, negative_entropy, one_hot

STAGES = (Role.WARMUP, Role.TRAIN, Role.FINETUNE)


class PencilSettings(Settings):
    first_stage: int = Field(70, ge=0)
    """Epochs of stage one."""
    second_stage: int = Field(130, ge=0)
    """Epochs of stage two; the rest is stage three."""
    start: float = Field(10.0, gt=0)
    """K."""
    compatibility: float = Field(0.02, ge=0)
    """alpha: how strongly learned labels are pulled towards the given ones. In equilibrium q is
    (p + alpha C e_y) / (1 + alpha C), so that no label changes unless alpha < 1 / C."""
    compatibility_on: Literal["distribution", "logits"] = "distribution"
    """CE(q, y) as above, or as in the published code, which takes q for logits: a second softmax
    that pulls far less. The published alphas, 0.1 to 0.4, were found with it."""
    entropy: float = Field(0.1, ge=0)
    """beta."""
    label_rate: float = Field(600.0, ge=0)
    """lambda, of the gradient of the batch's mean loss."""
    final_rate: float | None = Field(0.2, gt=0)
    """Learning rate at the beginning of stage three; None leaves it to the schedule."""


class Pencil(Method):
    Settings: ClassVar[type[Settings]] = PencilSettings
    about = "labels as parameters, learned by back-propagation"
    reference = "Yi and Wu, CVPR 2019"
    settings: PencilSettings

    label_logits: Tensor
    """(N, C) z."""
    has_learned: Tensor
    """Whether stage two has begun."""

    def prepare(self) -> None:
        context = self.context
        hot = one_hot(context.labels, context.num_classes)
        # A buffer, as the method itself updates it by plain gradient descent.
        self.register_buffer("label_logits", self.settings.start * hot)
        self.register_buffer("has_learned", torch.zeros((), dtype=torch.bool))
        self._logits: Tensor | None = None

    def _stage(self, epoch: int) -> int:
        first = self.settings.first_stage
        return 1 + (epoch > first) + (epoch > first + self.settings.second_stage)

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        self.has_learned.fill_(self._stage(epoch) > 1)
        changed = self._corrected()[self.context.rows]
        return {"stage": self._stage(epoch), "corrected": int(changed.sum())}

    def update_param_group(self, epoch: int, group: dict[str, Any]) -> None:
        before = self.settings.first_stage + self.settings.second_stage
        if self.settings.final_rate is not None and self._stage(epoch) == 3:
            thirds = 3 * (epoch - 1 - before) // max(1, self.context.epochs - before)
            group["lr"] = self.settings.final_rate * 0.1**thirds

    def steps(self, epoch: int) -> Steps:
        return one_stream(self.context, Stream(STAGES[self._stage(epoch) - 1]))

    def forward(self, batch: Batch) -> Losses:
        [(stream, part)] = batch.items()
        logits = self.network(self.context.weak_view(part)).logits
        if stream.role is Role.WARMUP:
            return {"cross_entropy": cross_entropy(logits, part.labels)}
        label_logits, classes = self.label_logits[part.rows], self.context.num_classes
        losses = {"classification": divergence(logits, label_logits).mean() / classes}
        if stream.role is Role.TRAIN:
            self._logits = logits.detach()
            held = self._compatibility(label_logits, part.labels).mean()
            losses["compatibility"] = self.settings.compatibility * held
            losses["entropy"] = -self.settings.entropy / classes * negative_entropy(logits)
        return losses

    def _compatibility(self, label_logits: Tensor, labels: Tensor) -> Tensor:
        """(b,) CE(q, y)."""
        if self.settings.compatibility_on == "logits":
            label_logits = label_logits.softmax(-1)
        return each_cross_entropy(label_logits, labels)

    def after_step(self, batch: Batch) -> None:
        [(stream, part)], ranks = batch.items(), self.context.ranks
        if stream.role is not Role.TRAIN or self._logits is None:
            return
        # Computed again, as the loop may have scaled or clipped the gradients.
        with torch.enable_grad():
            z = self.label_logits[part.rows].requires_grad_()
            each = divergence(self._logits, z) / self.context.num_classes
            each = each + self.settings.compatibility * self._compatibility(z, part.labels)
            (gradient,) = torch.autograd.grad(each.sum() / part.whole, z)
        rows, moves = ranks.gather(part.rows), ranks.gather(gradient)
        self.label_logits.index_add_(0, rows, moves, alpha=-self.settings.label_rate)
        self._logits = None

    def _corrected(self) -> Tensor:
        given = self.context.labels
        return (self.label_logits.argmax(-1) != given) & (given >= 0)

    def split(self) -> Split | None:
        if not bool(self.has_learned):
            return None
        changed = self._corrected()
        trained = torch.zeros_like(changed)
        trained[self.context.rows] = True
        return Split(trained & ~changed, trained & changed, self.label_logits.argmax(-1))

    def judge(self) -> Judgement:
        """Judge by the learned labels; held-out rows, which have none, by the network."""
        posterior = self.context.predict(self.network, self.context.all_rows).probs
        if bool(self.has_learned):
            rows = self.context.rows
            posterior[rows] = self.label_logits[rows].softmax(-1)
        return Judgement.from_probs(posterior, self.context.labels)


def divergence(logits: Tensor, label_logits: Tensor) -> Tensor:
    """(b,) KL(p, q) = sum_k p_k (log p_k - log q_k): the prediction comes first."""
    log_p, log_q = logits.float().log_softmax(-1), label_logits.float().log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1)
