"""The batches of an epoch on the device of this process; image files are read one step ahead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

from csot.data.types import TrainingData
from csot.methods.core.contract import Batch, Context, Method, Part, Steps, Stream

T = TypeVar("T")


def turn_batches(
    method: Method, epoch: int, data: TrainingData, context: Context
) -> Iterator[Batch]:
    """Yield the batches of all turns of an epoch; between turns the method evaluates again."""
    for turn in range(method.turn_count(epoch)):
        if turn:
            with torch.no_grad():
                method.begin_turn(epoch, turn)
            method.train()
        yield from fetch_batches(method.steps(epoch), data, context)


def fetch_batches(steps: Steps, data: TrainingData, context: Context) -> Iterator[Batch]:
    """Load this process's share of each step on the device; files are read one step ahead."""

    def fetch(streams: Mapping[Stream, Tensor]) -> Batch:
        parts = {}
        for stream, whole in streams.items():
            rows = whole[context.ranks.share(len(whole))].cpu()
            inputs = data.train.batch(rows).to(context.device)
            rows = rows.to(context.device)
            parts[stream] = Part(rows, inputs, context.labels[rows], context.ranks, len(whole))
        return parts

    batches = map(fetch, steps)
    is_read = data.root is not None and data.train.kind == "images"
    return prefetch(batches) if is_read else batches


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """Yield the same items in the same order; a thread produces the next one in the meantime."""

    def take() -> list[T]:
        return [item for _, item in zip(range(1), items, strict=False)]

    with ThreadPoolExecutor(1, "prefetch") as pool:
        future = pool.submit(take)
        while item := future.result():
            future = pool.submit(take)
            yield item[0]
