"""Build the parts of a run from its configuration: views, networks, optimiser, held-out rows."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from csot._core.errors import NetworkError
from csot.data.augment.views import Views, feature_views, image_views
from csot.data.samples import Samples
from csot.data.types import TrainingData
from csot.methods.core.contract import feature_dim
from csot.nets.build import build_network, seeded
from csot.nets.network import Outputs
from csot.training.config import NetworkConfig, OptimiserConfig, TrainingConfig, ViewsConfig
from csot.training.finetune import build_pretrained, is_pretrained

IN_MEMORY = "in memory: "
"""Begins the name of a network that was passed as a module."""
ROWS = 65536
"""Rows used to estimate mean and standard deviation."""


class Standardised(nn.Module):
    """A network with standardised inputs, (x - mean) / spread."""

    mean: Tensor
    spread: Tensor

    def __init__(self, network: nn.Module, mean: Tensor, spread: Tensor) -> None:
        super().__init__()
        self.network = network
        self.feature_dim = feature_dim(network)
        self.register_buffer("mean", mean)
        self.register_buffer("spread", spread)

    def forward(self, inputs: Tensor) -> Outputs:
        outputs: Outputs = self.network((inputs - self.mean) / self.spread)
        return outputs


def mean_and_spread(samples: Samples) -> tuple[Tensor, Tensor]:
    """(D,) mean and (D,) standard deviation; a constant feature has spread 1."""
    rows = torch.arange(0, len(samples), max(1, len(samples) // ROWS))
    values = samples.batch(rows).double()
    values = values[:, 0] if samples.stored_views > 1 else values
    spread = values.std(0, correction=0)
    return values.mean(0).float(), torch.where(spread > 0, spread, 1.0).float()


def has_units(data: TrainingData) -> bool:
    """Whether the features are plain numbers of a table, each in a unit of its own.

    Other tables are scaled when they are read, see `samples_of`.
    """
    return (
        data.table_features is not None and data.prepared is None and data.table_features.is_plain
    )


def make_views(data: TrainingData, config: ViewsConfig) -> Views:
    """Make the plain, weak and strong views of the data."""
    shape = data.train.shape
    if data.train.kind == "features":
        mean, spread = mean_and_spread(data.train)
        return feature_views(
            scale=spread,
            centre=mean,
            weak_noise=config.weak_noise,
            strong_noise=config.strong_noise,
            strong_dropout=config.strong_dropout,
            stored=data.train.stored_views,
        )
    assert data.mean is not None
    assert data.std is not None
    return image_views(
        (shape[0], shape[1], shape[2]),
        data.mean,
        data.std,
        policy=config.policy,
        padding=config.padding,
        flip=config.flip,
        crop=config.crop,
        cutout=config.cutout,
        crop_scale=config.crop_scale,
        strong_crop_scale=config.strong_crop_scale,
        whole=data.train.whole,
    )


def network_factory(
    data: TrainingData,
    config: TrainingConfig,
    seed: int,
    *,
    compiled: bool = False,
    module: nn.Module | None = None,
) -> Callable[[int], nn.Module]:
    """Return a function from 0, 1, ... to networks that differ only in their initialisation.

    A `module` of the user is copied instead, with its parameters as they are.
    """
    if module is None and config.network.name.startswith(IN_MEMORY):
        raise NetworkError(
            f"the network {config.network.name!r} was a module in memory: pass it as `backbone`"
        )
    network: NetworkConfig = config.network
    shape = data.train.shape
    if data.train.kind == "images" and config.views.crop:
        shape = (shape[0], config.views.crop, config.views.crop)

    def make(number: int) -> nn.Module:
        own_seed, classes = 1000 * seed + number, len(data.class_names)
        if module is not None:
            built = build_network(copy.deepcopy(module), shape=shape, num_classes=classes)
        elif is_pretrained(network.name):
            with seeded(own_seed):
                built = build_pretrained(network.name, classes, shape, network.options)
        else:
            built = build_network(
                network.name,
                shape=shape,
                num_classes=classes,
                width=network.width,
                feature_dim=network.feature_dim,
                weights=network.weights,
                seed=own_seed,
                **network.options,
            )
        if data.train.kind == "features":
            mean, spread = mean_and_spread(data.train)
            if config.scale == "whole" and not has_units(data):
                spread = spread.square().mean().sqrt().expand_as(spread).clone()
            built = Standardised(built, mean, spread)
        elif config.channels_last:
            for parameter in built.parameters():
                if parameter.ndim == 4:
                    # Copied: `contiguous` gives 1x1 kernels other strides than their gradients.
                    last = torch.empty_like(parameter.data, memory_format=torch.channels_last)
                    parameter.data = last.copy_(parameter.data)
        if compiled:
            built.compile()
        return built

    return make


def make_optimiser(groups: list[dict[str, Any]], config: OptimiserConfig) -> Optimizer:
    """Make one optimiser for all networks; it skips parameters without a gradient."""
    if config.name == "adam":
        return Adam(
            groups,
            lr=config.learning_rate,
            betas=(config.momentum, 0.999),
            weight_decay=config.weight_decay,
        )
    return SGD(
        groups,
        lr=config.learning_rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        nesterov=config.nesterov,
    )


def rows_to_train_on(labels: Tensor, config: TrainingConfig, generator: torch.Generator) -> Tensor:
    """(n,) row numbers in order; the held-out share is drawn among the labelled rows."""
    labelled = (labels >= 0).nonzero()[:, 0]
    most = int(config.holdout_most * len(labelled))
    count = max(int(config.holdout * len(labelled)), min(config.holdout_least, most))
    held = labelled[torch.randperm(len(labelled), generator=generator)[:count]]
    kept = torch.ones(len(labels), dtype=torch.bool)
    kept[held] = False
    return kept.nonzero()[:, 0]


def balanced_subset(rows: Tensor, labels: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw at most `count` of the `rows`, in order, as many of each class as there can be.

    As in DivideMix's code for Clothing1M: of rows in random order each class gives its first
    ceil(count / C), and of these the first `count` are taken. Labels (N,) are -1 for none.
    """
    order = rows[torch.randperm(len(rows), generator=generator)]
    order = order[labels[order] >= 0]
    given = labels[order]
    classes = given.bincount().nonzero()[:, 0]
    each = -(-count // max(1, len(classes)))
    kept = torch.zeros(len(order), dtype=torch.bool)
    for label in classes:
        kept[(given == label).nonzero()[:each, 0]] = True
    return order[kept][:count].sort().values


def generator_for(seed: int, *path: int) -> torch.Generator:
    """Return the generator of an independent stream, such as (seed, epoch)."""
    mixed = seed
    for number in path:
        # One LCG step per number (Knuth's MMIX), so that similar seeds give unrelated states.
        mixed = (mixed * 6364136223846793005 + 1442695040888963407 + number) % 2**63
    return torch.Generator().manual_seed(mixed)
