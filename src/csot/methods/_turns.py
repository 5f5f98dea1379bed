"""Two networks that take turns: each learns from the labels that the other one trusts.

After a warm-up on all labels, every epoch begins with a look at the data by both networks. Then
network 0 takes its steps while network 1 is frozen, then the other way round. That a network does
not choose its own samples keeps its mistakes from confirming themselves.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from torch import Tensor

from csot.methods._base import Batch, Losses, Part
from csot.methods._pair import TwoNetworks
from csot.methods._streams import full_batches, side_by_side
from csot.methods._warmup import WarmupSettings, warmup_loss


class TakingTurns(TwoNetworks):
    settings: WarmupSettings
    led_by_labelled: ClassVar[bool]
    """Whether a turn is one pass over the labelled rows; else over the larger set."""

    trust: Tensor
    """(2, N) in [0, 1]: how far each network trusts each given label."""
    clean: Tensor
    """(2, N) bool: the labels that each network would keep."""
    looked: Tensor

    def prepare(self) -> None:
        super().prepare()
        rows = len(self.context.labels)
        self.register_buffer("trust", torch.zeros(2, rows))
        self.register_buffer("clean", torch.zeros(2, rows, dtype=torch.bool))
        self.register_buffer("looked", torch.zeros((), dtype=torch.bool))
        self.epoch = 0
        self.taken = [0, 0]

    @abstractmethod
    def look(self, rows: Tensor) -> dict[str, float]:
        """Set `trust` and `clean` of some rows. Returns what to record."""

    @abstractmethod
    def turn(self, number: int, labelled: Part | None, unlabelled: Part | None) -> Losses:
        """Losses of one step of network `number`."""

    def warming_up(self, epoch: int) -> bool:
        return epoch <= self.settings.warmup

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        self.epoch, self.taken = epoch, [0, 0]
        if self.warming_up(epoch):
            return {"stage": 0}
        found = self.look(self.context.rows)
        self.looked.fill_(True)
        return {"stage": 1, "clean": float(self.clean.sum()) / 2, **found}

    def steps(self, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        rows, size, order = self.context.rows, self.context.batch_size, self.context.order
        if self.warming_up(epoch):
            # Nothing is shared, so that a common step is a step of each.
            size *= self.settings.warmup_batch_factor
            pair = (full_batches(rows, size, order) for _ in range(2))
            yield from ({"0/warmup": a, "1/warmup": b} for a, b in zip(*pair, strict=True))
            return
        for number in range(2):
            kept = self.clean[1 - number].cpu()[rows]
            sets = {f"{number}/labelled": rows[kept], f"{number}/unlabelled": rows[~kept]}
            leader = f"{number}/labelled" if self.led_by_labelled else None
            yield from side_by_side(sets, size, order, led_by=leader)

    def forward(self, batch: Batch) -> Losses:
        if "0/warmup" in batch:
            losses = [
                warmup_loss(
                    network,
                    batch[f"{number}/warmup"],
                    self.context,
                    self.settings.warmup_entropy,
                )
                for number, network in enumerate(self.networks)
            ]
            return {"warmup": torch.stack(losses).sum()}
        number = _number(batch)
        return self.turn(number, batch.get(f"{number}/labelled"), batch.get(f"{number}/unlabelled"))

    def after_step(self, batch: Batch) -> None:
        self.taken[_number(batch)] += 1

    def trained_epochs(self, number: int) -> float:
        """Epochs since the warm-up, with the share of the present one that a turn has done."""
        kept = int(self.clean[1 - number].cpu()[self.context.rows].sum())
        steps = max(1, kept // self.context.batch_size)
        return self.epoch - 1 - self.settings.warmup + min(1.0, self.taken[number] / steps)


def _number(batch: Batch) -> int:
    """Whose turn it is."""
    return int(next(iter(batch)).partition("/")[0])
