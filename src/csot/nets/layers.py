"""Convolutions, normalisation by name, and He's initialisation."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

from torch import Tensor, nn
from torch.nn.functional import avg_pool2d

from csot._core.errors import unknown_choice

Norm: TypeAlias = Literal["batch", "group", "layer", "none"]
GROUPS = 8


class StridedPointwise(nn.Conv2d):
    """A 1 x 1 convolution of every `step`-th pixel: subsample, then convolve with stride 1.

    On CPUs with AVX2 but not AVX-512, oneDNN (torch 2.13) writes past a buffer in the backward pass
    of a strided 1 x 1 channels_last convolution of fewer than 8 channels. Subsampling first
    computes the same at little cost (docs/performance.md has the ratios). Pooling single
    pixels keeps channels_last, which slicing would lose.
    """

    def __init__(self, inputs: int, outputs: int, step: int, bias: bool = False):
        super().__init__(inputs, outputs, 1, bias=bias)
        self.step = step

    def forward(self, maps: Tensor) -> Tensor:
        return super().forward(avg_pool2d(maps, 1, self.step))


def conv(inputs: int, outputs: int, size: int, stride: int = 1, bias: bool = False) -> nn.Conv2d:
    """A square convolution; with stride 1 it keeps the image size."""
    if size == 1 and stride > 1:
        return StridedPointwise(inputs, outputs, stride, bias)
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=bias)


def norm_2d(norm: Norm, channels: int) -> nn.Module:
    """The normalisation of feature maps (B, channels, H, W).

    Batch normalisation mixes the samples of a batch. With `group` or `none` every sample is alone,
    so a batch shared among processes gives what it gives in one.
    """
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    if norm == "group":
        return nn.GroupNorm(math.gcd(channels, GROUPS), channels)
    if norm == "layer":
        return nn.GroupNorm(1, channels)
    check_norm(norm)
    return nn.Identity()


def norm_1d(norm: Norm, channels: int) -> nn.Module:
    """The normalisation of vectors (B, channels)."""
    if norm == "batch":
        return nn.BatchNorm1d(channels)
    if norm == "group":
        return nn.GroupNorm(math.gcd(channels, GROUPS), channels)
    if norm == "layer":
        return nn.LayerNorm(channels)
    check_norm(norm)
    return nn.Identity()


def check_norm(norm: str) -> None:
    if norm not in get_args(Norm):
        raise unknown_choice("normalisation", norm, get_args(Norm))


def pool(maps: Tensor) -> Tensor:
    """(B, channels, H, W) -> (B, channels), whatever the size of the maps."""
    return maps.mean((2, 3))


def initialise(module: nn.Module) -> None:
    """He's initialisation of every convolution: the spread of what follows a ReLU is kept."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
            if part.bias is not None:
                nn.init.zeros_(part.bias)
