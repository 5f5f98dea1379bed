"""Pretrained networks for fine-tuning: by name, with their size and normalisation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from csot._core.errors import NetworkError, unknown_choice
from csot.embed import images as image_models
from csot.embed.embedder import HUB, TIMM
from csot.embed.hub import load_vision_model, pooled_features
from csot.embed.timm_models import create_timm, import_timm
from csot.methods.core.contract import Method
from csot.nets.network import Network

OPTIONS = ("head_epochs", "tuned")


@dataclass(frozen=True)
class PretrainedInputs:
    """Images as a pretrained network wants them: their side, and mean and deviation of pixels."""

    side: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


class EfficientNetBody(nn.Module):
    """(B, 3, H, W) -> (B, 1280)."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.network.extract_features(images)
        return maps.mean((2, 3))


class PixelFeatures(nn.Module):
    """Bytes (B, 3, side, side) as float -> features of a network of `csot.embed.images`."""

    def __init__(self, name: str, divisor: float = 1.0) -> None:
        super().__init__()
        self.body = EfficientNetBody(image_models.load_weights(name))
        self._divisor = divisor

    def forward(self, pixels: Tensor) -> Tensor:
        features: Tensor = self.body((pixels - image_models.MEAN) / image_models.DEVIATION)
        return features / self._divisor


class HubBody(nn.Module):
    """A vision model of transformers: pooled output, class token or mean."""

    def __init__(self, network: Any, has_pooler: bool) -> None:
        super().__init__()
        self.network = network
        self._has_pooler = has_pooler

    def forward(self, images: Tensor) -> Tensor:
        return pooled_features(self.network, images, self._has_pooler)


def is_pretrained(name: str) -> bool:
    """Whether the name of a network stands for pretrained weights."""
    return name in image_models.NETWORKS or name.startswith((HUB, TIMM))


def wanted_inputs(name: str) -> PretrainedInputs:
    """What a pretrained network takes; may load it."""
    if name.startswith(HUB):
        _, processor, _ = load_vision_model(name.removeprefix(HUB))
        size = dict(getattr(processor, "crop_size", None) or processor.size)
        side = size.get("height") or size.get("shortest_edge") or 224
        return PretrainedInputs(int(side), tuple(processor.image_mean), tuple(processor.image_std))
    if name.startswith(TIMM):
        model = create_timm(name.removeprefix(TIMM), num_classes=0)
        found = import_timm().data.resolve_model_data_config(model)
        return PretrainedInputs(
            int(found["input_size"][-1]), tuple(found["mean"]), tuple(found["std"])
        )
    mean, std = image_models.MEAN / 255, image_models.DEVIATION / 255
    return PretrainedInputs(image_models.NETWORKS[name].side, (mean,) * 3, (std,) * 3)


def build_pretrained(
    name: str, num_classes: int, shape: tuple[int, ...], options: Mapping[str, Any]
) -> nn.Module:
    """The network with a new classifier, (B, *shape) -> `Outputs`."""
    for key in options:
        if key not in OPTIONS:
            raise unknown_choice(f"option of {name} called", key, OPTIONS)
    body: nn.Module
    if name.startswith(HUB):
        network, _, has_pooler = load_vision_model(name.removeprefix(HUB))
        body = HubBody(network, has_pooler)
    elif name.startswith(TIMM):
        body = create_timm(name.removeprefix(TIMM), num_classes=0)
    else:
        body = EfficientNetBody(image_models.load_weights(name))
    body = body.cpu().eval()
    with torch.no_grad():
        dim = body(torch.zeros(1, *shape)).shape[1]
    return Network(Pretrained(body, dim, **options), num_classes)


def begin_epoch(method: Method, epoch: int) -> None:
    """Tell pretrained networks which epoch begins."""
    for part in method.modules():
        if isinstance(part, Pretrained):
            part.begin_epoch(epoch)


# A pretrained backbone for fine-tuning: first only what comes after it, then its last blocks.

SLOWER = 0.1
"""Factor of the gradients in the backbone: its weights are good already."""


class Pretrained(nn.Module):
    """A module (B, 3, H, W) -> (B, dim) whose first blocks stay as they are.

    It is always in evaluation mode: the statistics of its batch normalisation come from millions of
    images. Call `begin_epoch` before each epoch.

    Parameters
    ----------
    body : nn.Module
        Its longest list of blocks is taken to be its depth, in the order of registration.
    dim : int
        Length of the output vectors.
    head_epochs : int
        Epochs in which no weight of the body changes.
    tuned : float
        Share of the blocks, the last ones, that are trained after that; what follows them is too.
    """

    def __init__(self, body: nn.Module, dim: int, head_epochs: int = 3, tuned: float = 0.25):
        super().__init__()
        if head_epochs < 0 or not 0 <= tuned <= 1:
            raise NetworkError(
                f"head_epochs {head_epochs} must not be negative, and tuned {tuned} must be "
                "between 0 and 1"
            )
        self.body = body.eval()
        self.dim = dim
        self._head_epochs = head_epochs
        self._is_tuned = False
        chosen = set(last_parameters(body, tuned))
        for name, parameter in body.named_parameters():
            parameter.requires_grad_(name in chosen)
            if name in chosen:
                parameter.register_hook(_slowed)  # type: ignore[no-untyped-call]

    def begin_epoch(self, epoch: int) -> None:
        """Decide whether the last blocks are trained; epochs count from 1."""
        self._is_tuned = epoch > self._head_epochs

    def train(self, mode: bool = True) -> Pretrained:
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.set_grad_enabled(self._is_tuned and torch.is_grad_enabled()):
            out: Tensor = self.body(inputs)
        return out


def _slowed(gradient: Tensor) -> Tensor:
    return SLOWER * gradient


def last_parameters(body: nn.Module, share: float) -> list[str]:
    """Names of the parameters from the first of the last blocks on."""
    lists = [
        (name, part)
        for name, part in body.named_modules()
        if isinstance(part, nn.ModuleList | nn.Sequential) and len(part) > 1
    ]
    names = [name for name, _ in body.named_parameters()]
    if share == 0:
        return []
    if not lists:
        return names
    prefix, blocks = max(lists, key=lambda pair: len(pair[1]))
    first = len(blocks) - math.ceil(share * len(blocks))
    path = f"{prefix}." if prefix else ""
    starts = tuple(f"{path}{number}." for number in range(first, len(blocks)))
    positions = [place for place, name in enumerate(names) if name.startswith(starts)]
    return names[positions[0] :] if positions else []
