"""Cross-entropy on the given labels: what happens when nothing is done about the noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

from csot.methods.core.batches import full_batches
from csot.methods.core.contract import Batch, Losses
from csot.methods.core.networks import SingleNetwork
from csot.methods.parts.losses import cross_entropy


class CrossEntropy(SingleNetwork):
    about = "fit the given labels; the baseline that memorises"

    def steps(self, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        rows, size = self.context.rows, self.context.batch_size
        for batch in full_batches(rows, size, self.context.order):
            yield {"all": batch}

    def forward(self, batch: Batch) -> Losses:
        part = batch["all"]
        weak = part.view(self.context.views.weak, self.context.generator)
        return {"cross_entropy": cross_entropy(self.network(weak).logits, part.labels)}
