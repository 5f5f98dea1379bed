"""Vision models of timm by name, where timm is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from csot._core.errors import DataError
from csot._core.pictures import read_rgb
from csot.embed.hub import BATCH, DEVICE_BATCH, FULL_SIZE, first_line
from csot.embed.images import window

REMEDY = "pip install timm"
VIEWS = 2
"""Changes when the views of these models do, and those of `csot.embed.images` do not."""


def timm_embedder_version(model: str) -> str:
    """Changes when the weights do. Loads the model."""
    package = import_timm()
    network, _ = _load(model)
    weights = getattr(network, "pretrained_cfg", {}).get("tag", "")
    return f"timm {package.__version__} {weights}".strip()


def embed_by_timm(
    paths: Sequence[Path | str], model: str, view: int = 0
) -> npt.NDArray[np.float32]:
    """Pooled features (N, D); images are prepared as the model's own configuration says."""
    import torch

    network, prepare = _load(model)
    device = next(network.parameters()).device
    size = BATCH if device.type == "cpu" else DEVICE_BATCH
    found = []
    with torch.inference_mode():
        for start in range(0, len(paths), size):
            images = (read_rgb(Path(path), FULL_SIZE) for path in paths[start:][:size])
            pixels = torch.stack([prepare(window(image, view)) for image in images]).to(device)
            found.append(network(pixels).float().cpu().numpy())
    return np.concatenate(found)


def import_timm() -> Any:
    """timm, or an error that says how to install it: no extra of csot provides it."""
    try:
        return import_module("timm")
    except ImportError as error:
        raise DataError(f"models of timm: need timm: {REMEDY}") from error


def create_timm(model: str, **options: Any) -> Any:
    """A model with its pretrained weights; an error names the model."""
    try:
        return import_timm().create_model(model, pretrained=True, **options)
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(
            f"timm:{model} cannot be loaded ({first_line(error)}); check the name, and that its "
            "weights can be downloaded"
        ) from error


_LOADED: dict[str, tuple[Any, Any]] = {}


def _load(model: str) -> tuple[Any, Any]:
    """The network without its classifier, and the function that prepares an image."""
    if model not in _LOADED:
        import torch

        package = import_timm()
        network = create_timm(model, num_classes=0)
        settings = package.data.resolve_model_data_config(network)
        prepare = package.data.create_transform(**settings, is_training=False)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        _LOADED[model] = network.eval().to(device), prepare
    return _LOADED[model]
