"""Pretrained networks that are trained on: by name, with their size and normalisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from csot.embed import images as image_models
from csot.embed.embedder import HUB, TIMM
from csot.embed.hub import load_vision_model, pooled_features
from csot.embed.timm_models import create_timm, import_timm
from csot.methods.core.contract import Method
from csot.nets.errors import unknown
from csot.nets.network import Network
from csot.nets.pretrained import Pretrained

OPTIONS = ("head_epochs", "tuned")


@dataclass(frozen=True)
class Inputs:
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


def wanted_inputs(name: str) -> Inputs:
    """What a pretrained network takes; may load it."""
    if name.startswith(HUB):
        _, processor, _ = load_vision_model(name.removeprefix(HUB))
        size = dict(getattr(processor, "crop_size", None) or processor.size)
        side = size.get("height") or size.get("shortest_edge") or 224
        return Inputs(int(side), tuple(processor.image_mean), tuple(processor.image_std))
    if name.startswith(TIMM):
        model = create_timm(name.removeprefix(TIMM), num_classes=0)
        found = import_timm().data.resolve_model_data_config(model)
        return Inputs(int(found["input_size"][-1]), tuple(found["mean"]), tuple(found["std"]))
    mean, std = image_models.MEAN / 255, image_models.DEVIATION / 255
    return Inputs(image_models.NETWORKS[name].side, (mean,) * 3, (std,) * 3)


def build_pretrained(
    name: str, num_classes: int, shape: tuple[int, ...], options: Mapping[str, Any]
) -> nn.Module:
    """The network with a new classifier, (B, *shape) -> `Outputs`."""
    for key in options:
        if key not in OPTIONS:
            raise unknown(f"option of {name} called", key, OPTIONS)
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
