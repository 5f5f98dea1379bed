"""The backbones by name, with their options."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from torch import nn

from csot.nets.cnn9 import CNN9_SMALLEST, Cnn9
from csot.nets.errors import NetworkError, unknown
from csot.nets.inception_resnet_v2 import SMALLEST, InceptionResNetV2
from csot.nets.layers import Norm
from csot.nets.mlp import MLP
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
        raise unknown("network", name, NETWORKS)
    build = NETWORKS[name]
    known = [key for key in signature(build).parameters if key != "shape"]
    given = dict(options) if width is None else {"width": width, **options}
    for key in given:
        if key not in known:
            raise unknown(f"option of {name} called", key, known)
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
