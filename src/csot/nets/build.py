"""Build a network from a name, from a callable, or from a module of the user.

The backbones by name, with their options, are listed here; the small ones are defined here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from csot._core.errors import NetworkError, unknown_choice
from csot.nets.inception_resnet_v2 import SMALLEST, InceptionResNetV2
from csot.nets.layers import Norm, norm_1d, pool
from csot.nets.network import Adapted, Head, Network
from csot.nets.resnets import PreActResNet18, ResNet34, ResNet50, SmallResNet
from csot.nets.weights import load_weights

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


def build_network(
    name: str | nn.Module | Callable[..., nn.Module],
    *,
    shape: tuple[int, ...],
    num_classes: int,
    width: int | None = None,
    feature_dim: int | None = None,
    head: Head | None = None,
    weights: Path | str | None = None,
    seed: int = 0,
    **options: Any,
) -> nn.Module:
    """Build a network that maps inputs (B, *shape) to `Outputs`.

    Parameters
    ----------
    name : str, callable or nn.Module
        One of `NETWORKS`; or `"package.module:callable"` or a callable, which is called with
        `num_classes` and `shape`; or a module. See `Adapted` for what your own module may return.
    shape : tuple of int
        Shape of one input.
    num_classes : int
    width : int, optional
        Width of the backbone.
    feature_dim : int, optional
        Output size of the head; implies a linear head.
    head : {"linear", "none"}, optional
    weights : str or Path, optional
        Local file of parameters to load.
    seed : int
        Seed of the initial parameters; the global generator is left unchanged.
    **options
        Options of the backbone: `norm`, `hidden`, `final_norm` ...

    Returns
    -------
    nn.Module
    """
    if num_classes < 2:
        raise NetworkError(f"num_classes is {num_classes}: a classifier needs at least two")
    with seeded(seed):
        if isinstance(name, str) and ":" not in name:
            if head is None:
                head = "none" if feature_dim is None else "linear"
            backbone = build_backbone(name, shape, width, options)
            network: nn.Module = Network(backbone, num_classes, feature_dim, head)
        else:
            ours = {"width": width, "feature_dim": feature_dim, "head": head, **options}
            if given := [key for key, value in ours.items() if value is not None]:
                raise NetworkError(
                    f"{given[0]} is for the networks of csot: set it in your own network"
                )
            network = _adapted(name, shape, num_classes)
    if weights is not None:
        load_weights(network, Path(weights))
    return network


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global CPU generator inside the block; restore it afterwards.

    Layers draw their initial parameters from the global generator, and accept no other.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def _adapted(
    source: str | nn.Module | Callable[..., nn.Module], shape: tuple[int, ...], num_classes: int
) -> nn.Module:
    if isinstance(source, Network | Adapted):
        return source
    if isinstance(source, nn.Module):
        return Adapted(source, num_classes, shape)
    build = _import(source) if isinstance(source, str) else source
    module = build(num_classes=num_classes, shape=shape)
    if not isinstance(module, nn.Module):
        raise NetworkError(f"{source} returned a {type(module).__name__}, not a torch.nn.Module")
    return _adapted(module, shape, num_classes)


def _import(path: str) -> Callable[..., nn.Module]:
    """`"package.module:callable"` -> the callable."""
    module_name, _, attribute = path.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise NetworkError(
            f"{path!r}: there is no module {error.name!r}; is it installed, or on PYTHONPATH?"
        ) from error
    found = getattr(module, attribute, None)
    if not callable(found):
        raise NetworkError(f"{path!r}: {module_name} has no callable {attribute!r}")
    result: Callable[..., nn.Module] = found
    return result
