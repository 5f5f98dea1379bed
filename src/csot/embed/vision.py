"""Images -> features of any vision model of transformers, from the hub or a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from csot.data.errors import DataError, require
from csot.data.images import open_rgb
from csot.embed.hub import find_model, first_line, folder_identity

if TYPE_CHECKING:
    import torch

PURPOSE = "embedding images by transformers"
EXTRA = "hf"
BATCH = 8
DEVICE_BATCH = 64
FULL_SIZE = 1 << 16
"""No JPEG is decoded at a smaller size: scaling is left to the model's own image processor."""
MAY_BE_MISSING = ("pooler", "mask_token")
"""Weights that a checkpoint may lack without harm, because they are then not used."""


def vision_embedder_version(model: str) -> str:
    """Changes when the weights or the preparation do. May download the model."""
    require("transformers", EXTRA, PURPOSE)
    require("PIL", EXTRA, PURPOSE)
    return f"{folder_identity(find_model(model, EXTRA, PURPOSE))}-pil-1"


def embed_by_transformers(paths: Sequence[Path | str], model: str) -> npt.NDArray[np.float32]:
    """Features (N, D): the pooled output if the checkpoint has one, the class token or the mean.

    Images are prepared by the model's own image processor, the variant that needs only Pillow.
    """
    import torch

    network, processor, has_pooler = _load(model)
    device = next(network.parameters()).device
    size = BATCH if device.type == "cpu" else DEVICE_BATCH
    found = []
    with torch.inference_mode():
        for start in range(0, len(paths), size):
            images = [_image(Path(path)) for path in paths[start : start + size]]
            pixels = processor(images=images, return_tensors="pt")["pixel_values"].to(device)
            found.append(_features(network, pixels, has_pooler).float().cpu().numpy())
    return np.concatenate(found)


def _features(network: Any, pixels: torch.Tensor, has_pooler: bool) -> torch.Tensor:
    """(B, D)."""
    if hasattr(network, "get_image_features"):  # models of images and texts, such as CLIP
        output = network.get_image_features(pixel_values=pixels)
        projected: torch.Tensor = getattr(output, "pooler_output", output)
        return projected
    output = network(pixel_values=pixels)
    pooled: torch.Tensor | None = getattr(output, "pooler_output", None)
    if pooled is not None and has_pooler:
        return pooled.flatten(1)
    hidden: torch.Tensor = output.last_hidden_state
    if hidden.ndim == 4:  # a convolutional network's map (B, D, H, W)
        return hidden.mean((2, 3))
    tokens = [name for name, _ in network.named_parameters()]
    if any(name.endswith(("cls_token", "class_embedding")) for name in tokens):
        return hidden[:, 0]
    return hidden.mean(1)


def _image(path: Path) -> Any:
    try:
        return open_rgb(path, FULL_SIZE)
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(f"{path} cannot be read as an image: {error}") from error


_LOADED: dict[Path, tuple[Any, Any, bool]] = {}


def _load(model: str) -> tuple[Any, Any, bool]:
    """The network, its image processor, and whether its pooler has trained weights."""
    folder = find_model(model, EXTRA, PURPOSE)
    if folder not in _LOADED:
        import torch

        package = require("transformers", EXTRA, PURPOSE)
        package.utils.logging.disable_progress_bar()
        # The name of the option changed with version 5.
        old = int(package.__version__.partition(".")[0]) < 5
        plain: dict[str, Any] = {"use_fast": False} if old else {"backend": "pil"}
        try:
            processor = package.AutoImageProcessor.from_pretrained(folder, **plain)
            network, report = package.AutoModel.from_pretrained(folder, output_loading_info=True)
        except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
            raise DataError(
                f"--embedder hf:{model} cannot be loaded ({first_line(error)}); a vision model of "
                "transformers with its preprocessor_config.json is needed"
            ) from error
        missing = sorted(report["missing_keys"])
        untrained = [key for key in missing if not any(part in key for part in MAY_BE_MISSING)]
        if untrained:
            raise DataError(
                f"--embedder hf:{model} lacks {len(untrained)} weights of its own architecture, "
                f"first {untrained[0]}: its features would be random"
            )
        device = "cuda" if torch.cuda.is_available() else "cpu"
        has_pooler = not any("pooler" in key for key in missing)
        _LOADED[folder] = network.eval().to(device), processor, has_pooler
    return _LOADED[folder]
