"""Which rows each step takes: shuffled, in full batches, from one set or from several at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from csot.methods.core.contract import Context, Steps, Stream


def one_stream(
    context: Context, stream: Stream, *, batch_factor: int = 1, only_labelled: bool = False
) -> Steps:
    """One pass over the rows to train on, in batches of one stream.

    `batch_factor` enlarges the batches; `only_labelled` leaves out rows without a given label.
    """
    rows = labelled(context.rows, context.labels) if only_labelled else context.rows
    for batch in full_batches(rows, batch_factor * context.batch_size, context.order):
        yield {stream: batch}


def side_by_side(
    sets: Mapping[Stream, Tensor],
    size: int | Mapping[Stream, int],
    generator: torch.Generator,
    *,
    led_by: Stream | None = None,
) -> Steps:
    """Steps that take a batch of every set; shorter sets start again. Empty sets are left out.

    Batches have the same `size`, or one per stream. The number of steps is that of the set with
    most batches, or of the set `led_by` unless it is empty.
    """
    present = {stream: rows for stream, rows in sets.items() if len(rows)}
    sizes = dict.fromkeys(present, size) if isinstance(size, int) else size
    leaders = [led_by] if led_by in present else list(present)
    steps = max((max(1, len(present[one]) // sizes[one]) for one in leaders), default=0)
    endless = {stream: _endless(rows, sizes[stream], generator) for stream, rows in present.items()}
    for _ in range(steps):
        yield {stream: next(batches) for stream, batches in endless.items()}


def full_batches(rows: Tensor, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """One pass over `rows` in random order; rows that do not fill a batch are left out.

    Fewer rows than a batch are repeated until they fill one.
    """
    order = _shuffled(rows, size, generator)
    for start in range(0, len(order) - size + 1, size):
        yield order[start : start + size]


def labelled(rows: Tensor, labels: Tensor) -> Tensor:
    """Those of `rows` that have a label; `labels` (N,) are -1 for none."""
    return rows[(labels.cpu() >= 0)[rows]]


def _endless(rows: Tensor, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    while True:
        yield from full_batches(rows, size, generator)


def _shuffled(rows: Tensor, size: int, generator: torch.Generator) -> Tensor:
    def shuffle() -> Tensor:
        return rows[torch.randperm(len(rows), generator=generator)]

    order = shuffle()
    while 0 < len(order) < size:
        order = torch.cat([order, shuffle()])
    return order
