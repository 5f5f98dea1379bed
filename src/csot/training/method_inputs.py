"""What the loop gives a method: its context, and the batches of every epoch on the device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor, nn

from csot.data.augment.views import Views
from csot.data.types import TrainingData
from csot.methods.core.contract import Batch, Context, Method, Part, Steps, Stream
from csot.training.config import RunConfig
from csot.training.evaluate import Evaluator
from csot.training.from_config import network_factory
from csot.training.label_knowledge import starting_posterior

T = TypeVar("T")


def make_context(
    config: RunConfig,
    data: TrainingData,
    rows: Tensor,
    views: Views,
    evaluator: Evaluator,
    module: nn.Module | None,
) -> Context:
    """What the method is given: labels, rows, views, and how to evaluate its networks."""
    training = config.training
    context = Context(
        labels=data.targets.to(evaluator.device),
        rows=rows,
        num_classes=len(data.class_names),
        epochs=training.epochs,
        batch_size=training.batch_size,
        views=views,
        make_network=network_factory(
            data, training, config.seed, compiled=config.machine.compile, module=module
        ),
        predict=lambda network, wanted: evaluator.predictions(network, data.train, wanted),
        ranks=evaluator.ranks,
        locked=None if data.verified is None else data.verified >= 0,
        posterior=starting_posterior(data),
    )
    context.predict_weak = lambda network, wanted: evaluator.predictions(
        network, data.train, wanted, views.weak, context.generator
    )
    return context


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
