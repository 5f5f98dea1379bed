"""Vision models of transformers by name or folder: on disk, in the cache, or downloaded once."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from csot._core.errors import DataError, require
from csot._core.pictures import open_rgb
from csot.embed.images import window

if TYPE_CHECKING:
    import torch

SECONDS = 5
"""How long the hub has to answer before it counts as out of reach."""
FROM_THE_HUB = (401, 404, 405, 429)
CONFIGURATION = ["*.json", "*.txt", "*.model"]
WEIGHTS = (".safetensors", ".bin")
"""Weights that are downloaded: the first kind that the model has."""


def find_model(name: str, extra: str, purpose: str, remedy: str = "") -> Path:
    """The folder of a model: `name` itself, the hub's cache of it, or a download into that cache.

    Where the hub cannot be reached, the error comes at once: its own library would retry for more
    than a minute. `remedy` is added to the advice.
    """
    if Path(name).is_dir():
        return Path(name)
    if name.startswith(("/", ".", "~")) or name.count("/") > 1:
        raise DataError(f"the model folder {name} does not exist")
    hub = require("huggingface_hub", extra, purpose)
    cached = _snapshot(hub, name, local_files_only=True)
    if cached is not None and _is_complete(cached):
        return cached
    trouble = "offline mode is on (HF_HUB_OFFLINE)"
    if not hub.constants.HF_HUB_OFFLINE:
        trouble = _trouble(hub.constants.ENDPOINT, name)
    if trouble:
        raise DataError(
            f"the model {name!r} is neither a folder nor in the cache of the hub, and "
            f"{hub.constants.ENDPOINT} cannot be reached: {trouble}; pass the folder of a model "
            f"that was downloaded elsewhere{remedy}"
        )
    for weights in WEIGHTS:
        found = _snapshot(hub, name, allow_patterns=[*CONFIGURATION, f"*{weights}"])
        if found is not None and _is_complete(found):
            return found
    raise DataError(
        f"the hub has no model {name!r} with weights for PyTorch; check the name, and log in with "
        "`hf auth login` if it is not public"
    )


def folder_identity(folder: Path) -> str:
    """Changes when any file of the model does: the hub's commit, else a hash of the contents."""
    commit = folder.name
    if folder.parent.name == "snapshots" and len(commit) == 40:
        return commit
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(str(file.relative_to(folder)).encode() + b"\0")
        with open(file, "rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]


def first_line(error: Exception) -> str:
    """The beginning of a message that may go on for pages."""
    return str(error).strip().partition("\n")[0][:200]


def _snapshot(hub: object, name: str, **options: object) -> Path | None:
    """The folder, or None where the hub or its cache has no such model."""
    try:
        return Path(hub.snapshot_download(name, **options))  # type: ignore[attr-defined]
    except (OSError, ValueError):
        # Its errors: not found, not allowed, no connection, not a name.
        return None


def _is_complete(folder: Path) -> bool:
    described = any((folder / name).exists() for name in ("config.json", "modules.json"))
    return described and any(next(folder.rglob(f"*{end}"), None) for end in WEIGHTS)


def _trouble(endpoint: str, name: str) -> str:
    """Why the hub cannot be reached; empty if it answers at all.

    Looking up the host's name has no time limit of its own, so a thread waits for it.
    """
    answers: Queue[str] = Queue()
    address = f"{endpoint}/api/models/{name}"
    Thread(target=lambda: answers.put(_ask(address)), daemon=True).start()
    try:
        return answers.get(timeout=SECONDS)
    except Empty:
        return f"no answer within {SECONDS} seconds"


def _ask(address: str) -> str:
    try:
        request = urllib.request.Request(address, method="HEAD")
        urllib.request.urlopen(request, timeout=SECONDS).close()
    except urllib.error.HTTPError as error:
        # Not found, not allowed and not now are answers of the hub; others come from on the way.
        return "" if error.code in FROM_THE_HUB else f"HTTP {error.code} {error.reason}"
    except urllib.error.URLError as error:
        return str(error.reason)
    except (OSError, ValueError) as error:
        return str(error)
    return ""


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


def embed_by_transformers(
    paths: Sequence[Path | str], model: str, view: int = 0
) -> npt.NDArray[np.float32]:
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
            images = [window(_image(Path(path)), view) for path in paths[start : start + size]]
            pixels = processor(images=images, return_tensors="pt")["pixel_values"].to(device)
            found.append(pooled_features(network, pixels, has_pooler).float().cpu().numpy())
    return np.concatenate(found)


def pooled_features(network: Any, pixels: torch.Tensor, has_pooler: bool) -> torch.Tensor:
    """(B, D): the pooled output if the checkpoint has one, the class token or the mean."""
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
    """`load_vision_model`, on the device and once only."""
    folder = find_model(model, EXTRA, PURPOSE)
    if folder not in _LOADED:
        import torch

        network, processor, has_pooler = load_vision_model(model)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        _LOADED[folder] = network.to(device), processor, has_pooler
    return _LOADED[folder]


def load_vision_model(model: str) -> tuple[Any, Any, bool]:
    """The network, its image processor, and whether its pooler has trained weights."""
    folder = find_model(model, EXTRA, PURPOSE)
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
            f"`embedder` hf:{model} cannot be loaded ({first_line(error)}); a vision model of "
            "transformers with its preprocessor_config.json is needed"
        ) from error
    missing = sorted(report["missing_keys"])
    untrained = [key for key in missing if not any(part in key for part in MAY_BE_MISSING)]
    if untrained:
        raise DataError(
            f"`embedder` hf:{model} lacks {len(untrained)} weights of its own architecture, "
            f"first {untrained[0]}: its features would be random"
        )
    return network.eval(), processor, not any("pooler" in key for key in missing)
