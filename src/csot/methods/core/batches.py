"""Which rows each step takes: shuffled, in full batches, from one set or from several at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor


def full_batches(rows: Tensor, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """One pass over `rows` in random order; what does not fill a batch waits for another epoch.

    Fewer rows than a batch are repeated until they fill one.
    """
    order = _shuffled(rows, size, generator)
    for start in range(0, len(order) - size + 1, size):
        yield order[start : start + size]


def labelled(rows: Tensor, labels: Tensor) -> Tensor:
    """Those of `rows` that have a label; `labels` (N,) are -1 for none."""
    return rows[(labels.cpu() >= 0)[rows]]


def side_by_side(
    sets: Mapping[str, Tensor],
    size: int,
    generator: torch.Generator,
    *,
    led_by: str | None = None,
) -> Iterator[dict[str, Tensor]]:
    """Steps that take a batch of every set; shorter sets begin again. Empty sets are left out.

    The longest set decides how many steps there are, or the set `led_by` unless it is empty.
    """
    there = {name: rows for name, rows in sets.items() if len(rows)}
    leaders = [there[led_by]] if led_by in there else list(there.values())
    steps = max((max(1, len(rows) // size) for rows in leaders), default=0)
    streams = {name: _endless(rows, size, generator) for name, rows in there.items()}
    for _ in range(steps):
        yield {name: next(stream) for name, stream in streams.items()}


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
