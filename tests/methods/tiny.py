"""A method's surroundings, small enough for the oracle: features, and a network of two matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from csot._core.ranks import Ranks
from csot.data.augment.view_types import Draws, View, Views
from csot.data.augment.views import feature_views
from csot.methods.core.contract import Context, Part, Predictions
from csot.methods.csot import Csot
from csot.methods.parts.csot_settings import CsotSettings
from csot.nets.build import seeded
from csot.nets.network import Outputs

ROWS, DIM, FEATURES, CLASSES = 24, 4, 3, 3


class TinyNetwork(nn.Module):
    """tanh of a matrix are the features, another matrix makes logits of them."""

    feature_dim = FEATURES

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        source = torch.Generator().manual_seed(seed)
        self.first = nn.Parameter(torch.randn(FEATURES, DIM, generator=source))
        self.last = nn.Parameter(2 * torch.randn(CLASSES, FEATURES, generator=source))
        self.passes = 0

    def forward(self, inputs: Tensor) -> Outputs:
        self.passes += 1
        features = torch.tanh(inputs @ self.first.T)
        return Outputs(features @ self.last.T, features)


class Recorded(View):
    """A view that remembers what it gave."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.given: list[Tensor] = []

    def draw(self, count: int, generator: torch.Generator) -> Draws:
        return self.view.draw(count, generator)

    def __call__(self, inputs: Tensor, draws: Draws) -> Tensor:
        self.given.append(self.view(inputs, draws))
        return self.given[-1]


def recorded_views() -> Views:
    views = feature_views(scale=1.0, dim=DIM)
    return Views(*(Recorded(view) for view in (views.plain, views.weak, views.strong)))


def given_views(view: View) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    """What a recorded view has given, and forgets."""
    assert isinstance(view, Recorded)
    given, view.given = view.given, []
    return [values.double().numpy() for values in given]


def inputs(rows: int = ROWS) -> Tensor:
    return torch.randn(rows, DIM, generator=torch.Generator().manual_seed(11))


def some_labels(rows: int = ROWS) -> Tensor:
    return torch.arange(rows) % CLASSES


def context(
    labels: Tensor | None = None,
    predict: Callable[[nn.Module, Tensor], Predictions] | None = None,
    rows: Tensor | None = None,
    epochs: int = 10,
    batch_size: int = 6,
) -> Context:
    """Of `ROWS` rows that a network sees as they are, unless `predict` says otherwise."""
    labels = some_labels() if labels is None else labels
    samples = inputs(len(labels))

    def seen(network: nn.Module, wanted: Tensor) -> Predictions:
        return Predictions(*network(samples[wanted]))

    return Context(
        labels=labels,
        rows=torch.arange(len(labels)) if rows is None else rows,
        num_classes=CLASSES,
        epochs=epochs,
        batch_size=batch_size,
        views=recorded_views(),
        make_network=TinyNetwork,
        predict=predict or seen,
        generator=torch.Generator().manual_seed(1),
        order=torch.Generator().manual_seed(2),
    )


def make_csot(where: Context | None = None, **settings: Any) -> Csot:
    given = {"simsiam_norm": "none", "simsiam_hidden": 5, **settings}
    with seeded(0):  # for the predictor's weights
        return Csot(where or context(), CsotSettings.model_validate(given))


def part(method: Csot, rows: Tensor) -> Part:
    labels = method.context.labels
    return Part(rows, inputs(len(labels))[rows], labels[rows], Ranks(), len(rows))
