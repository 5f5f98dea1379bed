"""What methods train: one network, two networks side by side, or two that take turns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from csot.methods.core.batches import full_batches, labelled, side_by_side
from csot.methods.core.contract import Batch, Context, Judgement, Losses, Method, Part, Settings
from csot.methods.parts.losses import cross_entropy, negative_entropy


class SingleNetwork(Method):
    """One network; a label looks as good as the network finds it likely."""

    def prepare(self) -> None:
        self.network = self.context.make_network(0)

    def predict(self, inputs: Tensor) -> Tensor:
        log_probs: Tensor = self.network(inputs).logits.float().log_softmax(-1)
        return log_probs

    def judge(self) -> Judgement:
        seen = self.context.predict(self.network, self.context.everyone)
        return judge_by_probabilities(seen.probs, self.context.labels, seen.features)


def judge_by_probabilities(
    probs: Tensor, labels: Tensor, features: Tensor | None = None
) -> Judgement:
    """A verdict is relied on where one class has more than half of the probability."""
    return Judgement(
        posterior=probs,
        trusted=probs.amax(-1) > 0.5,
        scores=probs.gather(1, labels.clamp(min=0)[:, None])[:, 0],
        features=features,
    )


# Methods that train two networks, which differ in their initialisation.


class TwoNetworks(Method):
    """Two networks; both together predict, by the sum of their logits."""

    network_count = 2

    def prepare(self) -> None:
        make = self.context.make_network
        self.networks = nn.ModuleList([make(0), make(1)])

    def predict(self, inputs: Tensor) -> Tensor:
        logits = [network(inputs).logits.float() for network in self.networks]
        return torch.stack(logits).sum(0).log_softmax(-1)

    def judge(self) -> Judgement:
        rows = self.context.everyone
        logits = [self.context.predict(network, rows).logits for network in self.networks]
        return judge_by_probabilities(torch.stack(logits).sum(0).softmax(-1), self.context.labels)


# Two networks that learn from the same batches and decide together what to learn from them.


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


# Warm-up: some epochs of cross-entropy, before a network is asked what it makes of the labels.


class WarmupSettings(Settings):
    warmup: int = Field(10, ge=0)
    """Epochs."""
    warmup_batch_factor: int = Field(2, ge=1)
    """Batches of the warm-up, in units of the batch size."""
    warmup_entropy: float = Field(0.0, ge=0)
    """Weight of the negative entropy, which keeps predictions from growing too sure. The originals
    have 1 where labels are only confused with few others."""


def warmup_loss(network: nn.Module, part: Part, context: Context, entropy: float) -> Tensor:
    """Cross-entropy + entropy * sum_k p_k log p_k, on the weak view."""
    weak = part.view(context.views.weak, context.generator)
    logits = network(weak).logits
    loss = cross_entropy(logits, part.labels)
    return loss + entropy * negative_entropy(logits) if entropy else loss


# Two networks that take turns: each learns from the labels that the other one trusts.
#
# After a warm-up on all labels, every epoch begins with a look at the data by both networks. Then
# network 0 takes its steps while network 1 is frozen, then the other way round. That a network does
# not choose its own samples keeps its mistakes from confirming themselves.


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
