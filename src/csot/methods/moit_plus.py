"""MOIT+: MOIT, then a new classifier on the labels that MOIT trusts at its end.

The last epochs train on these rows only, with the classifier initialised again and a lower learning
rate. The target of a row mixed of i and j with weights l and 1 - l is that of mixup at first; then
a share b of each label is the network's own prediction for the plain view, as a one-hot vector:

    l ((1 - b) y_i + b onehot(argmax p_i)) + (1 - l) ((1 - b) y_j + b onehot(argmax p_j))
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.core.batches import full_batches
from csot.methods.core.contract import Batch, Losses, Part, Role, Settings, Steps, Stream
from csot.methods.moit import Moit, MoitSettings
from csot.methods.parts.losses import cross_entropy, one_hot
from csot.nets.network import last_linear

FINETUNE = Stream(Role.FINETUNE)


class MoitPlusSettings(MoitSettings):
    plus_epochs: int = Field(70, ge=1)
    """Epochs at the end that train the new classifier; at least one is left to MOIT."""
    plus_rate: float = Field(0.01, gt=0)
    """Learning rate of these epochs, as a share of the optimiser's."""
    bootstrap: float = Field(0.2, ge=0, le=1)
    """b."""
    bootstrap_after: int = Field(30, ge=0)
    """Epochs of the new classifier with b = 0."""


class MoitPlus(Moit):
    Settings: ClassVar[type[Settings]] = MoitPlusSettings
    about = "MOIT, then a new classifier on the labels that it trusts"
    settings: MoitPlusSettings

    @property
    def last(self) -> int:
        """The last epoch of MOIT."""
        return max(1, self.context.epochs - self.settings.plus_epochs)

    def schedule_epoch(self, epoch: int) -> tuple[int, int]:
        """Each part has its own schedule."""
        last = self.last
        return (epoch, last) if epoch <= last else (epoch - last, self.context.epochs - last)

    def update_param_group(self, epoch: int, group: dict[str, Any]) -> None:
        if epoch > self.last:
            group["lr"] *= self.settings.plus_rate

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        if epoch <= self.last + 1:
            record = super().begin_epoch(epoch)
        self.epoch = epoch
        if epoch <= self.last:
            return record
        if epoch == self.last + 1:
            fresh, classes = self.context.make_network(1), self.context.num_classes
            pairs = zip(
                last_linear(self.network, classes), last_linear(fresh, classes), strict=True
            )
            for layer, new in pairs:
                layer.load_state_dict(new.state_dict())
        return {"stage": 3.0, "clean": float(self.trusted[self.context.rows].sum())}

    def steps(self, epoch: int) -> Steps:
        if epoch <= self.last:
            yield from super().steps(epoch)
            return
        context = self.context
        rows = context.rows[self.trusted.cpu()[context.rows] > 0]
        if len(rows):
            for batch in full_batches(rows, context.batch_size, context.order):
                yield {FINETUNE: batch}

    def forward(self, batch: Batch) -> Losses:
        if FINETUNE not in batch:
            return super().forward(batch)
        part = batch[FINETUNE]
        strong, mix = self.context.strong_view(part), self._draw_mix(part)
        targets = mix(self._bootstrapped(part))
        return {"finetune": cross_entropy(self.network(mix(strong)).logits, targets)}

    def _bootstrapped(self, part: Part) -> Tensor:
        """(b, C) targets before they are mixed."""
        classes, share = self.context.num_classes, self.settings.bootstrap
        hot = one_hot(part.labels, classes)
        if self.epoch - self.last <= self.settings.bootstrap_after:
            return hot
        with torch.no_grad():
            plain = part.view(self.context.views.plain, self.context.generator)
            predicted = self.network(plain).logits.argmax(-1)
        return (1 - share) * hot + share * one_hot(predicted, classes)
