"""Two networks that learn from the same batches and decide together what to learn from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

from csot.methods._base import Part
from csot.methods._pair import TwoNetworks
from csot.methods._streams import full_batches, labelled


class Peers(TwoNetworks):
    """Rows without a label are left out: they have no loss to compare."""

    def steps(self, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        rows = labelled(self.context.rows, self.context.labels)
        for batch in full_batches(rows, self.context.batch_size, self.context.order):
            yield {self.stream(epoch): batch}

    def stream(self, epoch: int) -> str:
        """What the rows of this epoch are for."""
        return "all"

    def logits_of(self, part: Part) -> tuple[Tensor, Tensor]:
        """Of both networks, for the same weak view."""
        weak = part.view(self.context.views.weak, self.context.generator)
        first, second = (network(weak).logits for network in self.networks)
        return first, second
