"""How networks train: warm-up, two peers on the same batches, two networks that take turns.

A method has one or more networks (`Method.networks`); what it does with them is composed of

    warmup_loss     cross-entropy before the method's own loss       ot_filter, `Turns`
    peer_logits     two networks on the same view of a batch         co_teaching, decoupling
    Turns           each network trains on the other one's split     dividemix, nce, unicon
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from csot.methods.core.batches import one_stream, side_by_side
from csot.methods.core.contract import Batch, Context, Losses, Part, Role, Settings, Steps, Stream
from csot.methods.parts.losses import cross_entropy, negative_entropy


class WarmupSettings(Settings):
    """Settings of a warm-up with cross-entropy on all given labels."""

    warmup: int = Field(10, ge=0)
    """Epochs."""
    warmup_batch_factor: int = Field(2, ge=1)
    """Batches of the warm-up, in units of the batch size."""
    warmup_entropy: float = Field(0.0, ge=0)
    """Weight of the negative entropy, which avoids overconfident predictions. The originals have 1
    where each class is only confused with a few others."""


def warmup_loss(network: nn.Module, part: Part, context: Context, entropy: float) -> Tensor:
    """Cross-entropy + entropy * sum_k p_k log p_k, on the weak view."""
    logits = network(context.weak_view(part)).logits
    loss = cross_entropy(logits, part.labels)
    return loss + entropy * negative_entropy(logits) if entropy else loss


def peer_logits(networks: nn.ModuleList, part: Part, context: Context) -> tuple[Tensor, Tensor]:
    """Logits of two networks for the same weak view."""
    weak = context.weak_view(part)
    first, second = (network(weak).logits for network in networks)
    return first, second


class Turns(nn.Module):
    """Two networks that take turns: each trains on the labels that the other one trusts.

    After a warm-up on all labels, the method sets `trust` and `clean` at the beginning of every
    epoch. Then network 0 takes its steps while network 1 is frozen, then the other way round. As no
    network selects its own samples, its mistakes do not confirm themselves.

    Parameters
    ----------
    context : Context
    settings : WarmupSettings
    led_by_labelled : bool
        Whether a turn is one pass over the labelled rows; else over the larger set.
    second_look : bool
        Whether the method sets `trust` and `clean` again before the second network's turn.

    Attributes
    ----------
    trust : Tensor of shape (2, N)
        How far each network trusts each given label, from 0 to 1.
    clean : Tensor of shape (2, N), bool
        The labels that each network would keep.
    has_split : Tensor, bool
        Whether `trust` and `clean` have been set.
    unlabelled_batch : int
        Size of the batches of unlabelled rows; by default that of the labelled ones.
    """

    trust: Tensor
    clean: Tensor
    has_split: Tensor

    def __init__(
        self,
        context: Context,
        settings: WarmupSettings,
        *,
        led_by_labelled: bool,
        second_look: bool = False,
    ) -> None:
        super().__init__()
        self.context = context
        self.settings = settings
        self.led_by_labelled = led_by_labelled
        self.second_look = second_look
        self.turn = 0
        rows = len(context.labels)
        self.register_buffer("trust", torch.zeros(2, rows))
        self.register_buffer("clean", torch.zeros(2, rows, dtype=torch.bool))
        self.register_buffer("has_split", torch.zeros((), dtype=torch.bool))
        self.unlabelled_batch = context.batch_size
        self.epoch = 0
        self.steps_taken = [0, 0]

    def begin_epoch(self, epoch: int) -> None:
        self.epoch, self.steps_taken, self.turn = epoch, [0, 0], 0
        self.has_split.fill_(not self.is_warmup(epoch))

    def is_warmup(self, epoch: int) -> bool:
        return epoch <= self.settings.warmup

    def count(self, epoch: int) -> int:
        """Turns of the epoch that the loop has to know: two if there is a second look."""
        return 2 if self.second_look and not self.is_warmup(epoch) else 1

    def steps(self, epoch: int) -> Steps:
        if self.is_warmup(epoch):
            yield from self._warmup_steps()
            return
        context = self.context
        for number in [self.turn] if self.second_look else range(2):
            kept = self.clean[1 - number].cpu()[context.rows]
            labelled, unlabelled = Stream(Role.LABELLED, number), Stream(Role.UNLABELLED, number)
            sets = {labelled: context.rows[kept], unlabelled: context.rows[~kept]}
            sizes = {labelled: context.batch_size, unlabelled: self.unlabelled_batch}
            leader = labelled if self.led_by_labelled else None
            yield from side_by_side(sets, sizes, context.order, led_by=leader)

    def _warmup_steps(self) -> Steps:
        """Both networks in one step: they share nothing, so it is a step of each."""
        pair = (
            one_stream(
                self.context,
                Stream(Role.WARMUP, number),
                batch_factor=self.settings.warmup_batch_factor,
            )
            for number in range(2)
        )
        yield from ({**first, **second} for first, second in zip(*pair, strict=True))

    def warmup_losses(self, networks: nn.ModuleList, batch: Batch) -> Losses | None:
        """The losses of a step of the warm-up; None for any other step."""
        if Stream(Role.WARMUP) not in batch:
            return None
        losses = [
            warmup_loss(networks[stream.network], part, self.context, self.settings.warmup_entropy)
            for stream, part in batch.items()
        ]
        return {"warmup": torch.stack(losses).sum()}

    def parts(self, batch: Batch) -> tuple[int, Part | None, Part | None]:
        """Number of the network whose turn it is, its labelled rows and its unlabelled rows."""
        number = next(iter(batch)).network
        return (
            number,
            batch.get(Stream(Role.LABELLED, number)),
            batch.get(Stream(Role.UNLABELLED, number)),
        )

    def after_step(self, batch: Batch) -> None:
        for number in {stream.network for stream in batch}:
            self.steps_taken[number] += 1

    def trained_epochs(self, number: int) -> float:
        """Epochs since the warm-up, including the share of the present turn that is done."""
        kept = int(self.clean[1 - number].cpu()[self.context.rows].sum())
        steps = max(1, kept // self.context.batch_size)
        return self.epoch - 1 - self.settings.warmup + min(1.0, self.steps_taken[number] / steps)

    def mean_clean(self) -> float:
        """Number of labels kept, on average over both networks."""
        return float(self.clean.sum()) / 2
