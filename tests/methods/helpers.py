"""A tiny problem, and the loop's part in it: what the tests of single methods share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from csot.data.augment.views import feature_views
from csot.methods import find_method
from csot.methods.core.contract import (
    Batch,
    Context,
    Losses,
    Method,
    Part,
    Predictions,
    Role,
    Stream,
)
from csot.nets.build import build_network, seeded

WARMUP, TRAIN = Stream(Role.WARMUP), Stream(Role.TRAIN)
LABELLED, UNLABELLED = Stream(Role.LABELLED), Stream(Role.UNLABELLED)


@dataclass(frozen=True)
class Tiny:
    """Planted classes in few dimensions, some labels wrong, some rows held out."""

    inputs: Tensor
    truth: Tensor
    context: Context

    def batch(self, streams: Mapping[Stream, Tensor]) -> Batch:
        """What the loop would pass to the method."""
        context = self.context
        return {
            stream: Part(rows, self.inputs[rows], context.labels[rows], context.ranks, len(rows))
            for stream, rows in streams.items()
        }


def make_tiny(
    *,
    rows: int = 120,
    classes: int = 3,
    dim: int = 6,
    noise: float = 0.3,
    held_out: int = 6,
    batch_size: int = 12,
    epochs: int = 4,
    weak_noise: float = 0.1,
    seed: int = 0,
) -> Tiny:
    """Without batch normalisation: what a method makes of a row is then the row's alone."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.arange(rows) % classes
    centres = 2 * torch.randn(classes, dim, generator=generator)
    inputs = centres[truth] + torch.randn(rows, dim, generator=generator)
    wrong = torch.rand(rows, generator=generator) < noise
    moved = (truth + torch.randint(1, classes, (rows,), generator=generator)) % classes
    views = feature_views(scale=1.0, dim=dim, weak_noise=weak_noise)

    def make_network(number: int) -> nn.Module:
        return build_network(
            "mlp", shape=(dim,), num_classes=classes, seed=number, hidden=(16,), norm="none"
        )

    @torch.no_grad()
    def predict(network: nn.Module, wanted: Tensor) -> Predictions:
        was = network.training
        network.eval()
        plain = views.plain(inputs[wanted], views.plain.draw(len(wanted), generator))
        out = network(plain)
        network.train(was)
        return Predictions(out.logits, out.features)

    context = Context(
        labels=torch.where(wrong, moved, truth),
        rows=torch.arange(held_out, rows),
        num_classes=classes,
        epochs=epochs,
        batch_size=batch_size,
        views=views,
        make_network=make_network,
        predict=predict,
        generator=torch.Generator().manual_seed(seed + 1),
        order=torch.Generator().manual_seed(seed + 2),
    )
    return Tiny(inputs, truth, context)


def make_method(name: str, tiny: Tiny, **settings: object) -> Method:
    kind = find_method(name)
    with seeded(0):  # for heads, which a method makes itself
        return kind(tiny.context, kind.Settings.model_validate(settings))


def run_epochs(
    method: Method, tiny: Tiny, first: int, last: int, rate: float = 0.05
) -> list[dict[str, float]]:
    """Epochs `first` to `last` by SGD; the losses of every step. All must be finite."""
    optimiser = torch.optim.SGD(method.parameter_groups(), lr=rate, momentum=0.9)
    seen = []
    for epoch in range(first, last + 1):
        with torch.no_grad():
            method.begin_epoch(epoch)
        for turn in range(method.turn_count(epoch)):
            if turn:
                with torch.no_grad():
                    method.begin_turn(epoch, turn)
            method.train()
            for streams in method.steps(epoch):
                batch = tiny.batch(streams)
                losses: Losses = method(batch)
                total = torch.stack(list(losses.values())).sum()
                assert bool(torch.isfinite(total))
                total.backward()
                optimiser.step()
                optimiser.zero_grad()
                method.after_step(batch)
                seen.append({name: float(value.detach()) for name, value in losses.items()})
    method.eval()
    return seen


def accuracy(method: Method, tiny: Tiny) -> float:
    """On the rows trained on, against the true labels."""
    plain = tiny.context.views.plain
    inputs = plain(tiny.inputs, plain.draw(len(tiny.inputs), torch.Generator()))
    with torch.no_grad():
        right = method.predict(inputs).argmax(-1) == tiny.truth
    return float(right[tiny.context.rows].float().mean())
