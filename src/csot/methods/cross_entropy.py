"""Cross-entropy on the given labels: the baseline, which does nothing about the noise."""

from __future__ import annotations

from csot.methods.core.batches import one_stream
from csot.methods.core.contract import Batch, Losses, Method, Role, Steps, Stream
from csot.methods.parts.losses import cross_entropy

TRAIN = Stream(Role.TRAIN)


class CrossEntropy(Method):
    about = "fit the given labels; the baseline that memorises"

    def steps(self, epoch: int) -> Steps:
        return one_stream(self.context, TRAIN)

    def forward(self, batch: Batch) -> Losses:
        part = batch[TRAIN]
        logits = self.network(self.context.weak_view(part)).logits
        return {"cross_entropy": cross_entropy(logits, part.labels)}
