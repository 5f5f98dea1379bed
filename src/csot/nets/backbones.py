"""The backbones by name, with their options; the small ones are here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from torch import Tensor, nn

from csot._core.errors import NetworkError, unknown_choice
from csot.nets.inception_resnet_v2 import SMALLEST, InceptionResNetV2
from csot.nets.layers import Norm, norm_1d, pool
from csot.nets.resnets import PreActResNet18, ResNet34, ResNet50, SmallResNet

Shape = tuple[int, ...]


def resnet8(shape: Shape, width: int = 16, norm: Norm = "batch", stem_stride: int = 1) -> nn.Module:
    return SmallResNet(_channels("resnet8", shape), 8, width, norm, stem_stride)


def resnet20(
    shape: Shape, width: int = 16, norm: Norm = "batch", stem_stride: int = 1
) -> nn.Module:
    return SmallResNet(_channels("resnet20", shape), 20, width, norm, stem_stride)


def preact_resnet18(shape: Shape, width: int = 64, final_norm: bool = False) -> nn.Module:
    return PreActResNet18(_channels("preact_resnet18", shape), width, final_norm)


def resnet34(shape: Shape, width: int = 64) -> nn.Module:
    return ResNet34(_channels("resnet34", shape), width)


def cnn9(shape: Shape, width: int = 128, dropout: float = 0.25) -> nn.Module:
    channels = _channels("cnn9", shape)
    if min(shape[1:]) < CNN9_SMALLEST:
        raise NetworkError(
            f"cnn9 needs images of at least {CNN9_SMALLEST} pixels each way, these have {shape[1]} "
            f"x {shape[2]}: use 'resnet8'"
        )
    return Cnn9(channels, width, dropout)


def resnet50(shape: Shape, width: int = 64) -> nn.Module:
    return ResNet50(_channels("resnet50", shape), width)


def inception_resnet_v2(shape: Shape) -> nn.Module:
    channels = _channels("inception_resnet_v2", shape)
    if min(shape[1:]) < SMALLEST:
        raise NetworkError(
            f"inception_resnet_v2 halves an image five times, but these have {shape[1]} x "
            f"{shape[2]} pixels: it needs {SMALLEST} each way, and was made for 299"
        )
    return InceptionResNetV2(channels)


def mlp(
    shape: Shape,
    width: int = 512,
    hidden: Sequence[int] | None = None,
    norm: Norm = "batch",
    dropout: float = 0.0,
    input_dropout: float = 0.0,
) -> nn.Module:
    """Two layers of `width` units, or the layers listed in `hidden`."""
    hidden = (width, width) if hidden is None else hidden
    return MLP(math.prod(shape), hidden, norm, dropout, input_dropout)


NETWORKS: Mapping[str, Callable[..., nn.Module]] = {
    "preact_resnet18": preact_resnet18,
    "resnet8": resnet8,
    "resnet20": resnet20,
    "resnet34": resnet34,
    "cnn9": cnn9,
    "resnet50": resnet50,
    "inception_resnet_v2": inception_resnet_v2,
    "mlp": mlp,
}


def build_backbone(
    name: str, shape: Shape, width: int | None, options: Mapping[str, Any]
) -> nn.Module:
    """Build a backbone, (B, *shape) -> (B, dim)."""
    if name not in NETWORKS:
        raise unknown_choice("network", name, NETWORKS)
    build = NETWORKS[name]
    known = [key for key in signature(build).parameters if key != "shape"]
    given = dict(options) if width is None else {"width": width, **options}
    for key in given:
        if key not in known:
            raise unknown_choice(f"option of {name} called", key, known)
    if width is not None and width < 1:
        raise NetworkError(f"width is {width}: it must be at least 1")
    return build(shape, **given)


def _channels(name: str, shape: Shape) -> int:
    if len(shape) != 3:
        raise NetworkError(
            f"{name} reads images (channels, height, width), but a sample has the shape {shape}: "
            f"use 'mlp' for vectors"
        )
    return shape[0]


# The 9-layer CNN of Co-teaching (Han et al. 2018), which many small-image baselines train.
#
# Three stages of three convolutions, each followed by batch normalisation and a leaky ReLU. After
# the first two stages come a maximum over 2x2 pixels and dropout; the convolutions of the third
# have no padding, so that images of 32 pixels end as maps of 2x2.

SLOPE = 0.01
CNN9_SMALLEST = 28
"""Pixels: two halvings, then six pixels less."""
STAGES = ((1, 1, 1), (2, 2, 2), (4, 2, 1))
"""Channels of each convolution, in units of the width."""


class Cnn9(nn.Module):
    """(B, channels, H, W) -> features (B, width)."""

    def __init__(self, channels: int, width: int = 128, dropout: float = 0.25):
        super().__init__()
        layers: list[nn.Module] = []
        inputs = channels
        for number, stage in enumerate(STAGES):
            is_last = number == len(STAGES) - 1
            for factor in stage:
                outputs = factor * width
                layers += [
                    nn.Conv2d(inputs, outputs, 3, padding=0 if is_last else 1),
                    nn.BatchNorm2d(outputs),
                    nn.LeakyReLU(SLOPE),
                ]
                inputs = outputs
            if not is_last:
                layers += [nn.MaxPool2d(2), nn.Dropout2d(dropout)]
        self.layers = nn.Sequential(*layers)
        self.dim = inputs

    def forward(self, x: Tensor) -> Tensor:
        return pool(self.layers(x))


# A multi-layer perceptron for embeddings: linear, normalisation, ReLU, dropout per layer.


class MLP(nn.Module):
    """(B, D) -> features (B, hidden[-1])."""

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int] = (512, 512),
        norm: Norm = "batch",
        dropout: float = 0.0,
        input_dropout: float = 0.0,
    ):
        super().__init__()
        if not hidden or min(hidden) < 1:
            raise NetworkError(
                f"hidden is {list(hidden)}: an mlp needs at least one layer, of at least one unit"
            )
        layers: list[nn.Module] = [nn.Dropout(input_dropout)] if input_dropout else []
        for size in hidden:
            linear = nn.Linear(inputs, size, bias=norm != "batch")
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
            layers += [linear, norm_1d(norm, size), nn.ReLU()]
            if dropout:
                layers.append(nn.Dropout(dropout))
            inputs = size
        self.layers = nn.Sequential(*layers)
        self.dim = inputs

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x.flatten(1))
        return out
