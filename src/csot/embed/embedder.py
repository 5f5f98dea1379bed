"""What turns samples into features: ours, or a callable of the user's own."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from csot._core.errors import DataError
from csot.embed.hub import embed_by_transformers, vision_embedder_version
from csot.embed.images import NAME, NETWORKS, embed_images, image_embedder_version
from csot.embed.texts import DEFAULT_MODEL, embed_texts, text_embedder_version

HUB = "hf:"
Medium = Literal["images", "texts"]
Samples = Sequence[Path] | Sequence[str]


@dataclass(frozen=True)
class Embedder:
    """A function from a list of n paths or texts to (n, D), and what tells it from another."""

    name: str
    version: str
    function: Callable[[Any], npt.ArrayLike]
    chunk: int
    """Samples given to the function at once; an interruption loses at most this many."""

    def __call__(self, samples: Samples) -> npt.NDArray[np.float32]:
        """(n, D) float32, checked."""
        found = np.asarray(self.function(list(samples)))
        if found.ndim != 2 or len(found) != len(samples) or found.dtype.kind not in "fiub":
            raise DataError(
                f"the embedder {self.name} returned {found.dtype} of shape {found.shape} for "
                f"{len(samples)} samples; numbers of shape ({len(samples)}, D) are needed"
            )
        bad = np.flatnonzero(~np.isfinite(found).all(1))
        if len(bad):
            raise DataError(
                f"the embedder {self.name} returned NaN or infinity for {samples[bad[0]]!s:.200}"
            )
        return found.astype(np.float32)


def resolve_embedder(medium: Medium, wanted: str | None = None) -> Embedder:
    """`package.module:callable`, or `hf:` and a name or folder of a model of transformers.

    For images also one of `NETWORKS`; for texts a name or folder of sentence-transformers, with or
    without `hf:`.
    """
    from_hub = wanted is not None and wanted.startswith(HUB)
    if wanted is not None and ":" in wanted and not from_hub and not Path(wanted).exists():
        return _users_own(wanted)
    if medium == "images":
        if wanted is not None and from_hub:
            model = wanted.removeprefix(HUB)
            version = vision_embedder_version(model)
            return Embedder(wanted, version, partial(embed_by_transformers, model=model), chunk=64)
        name = wanted or NAME
        if name not in NETWORKS:
            raise DataError(
                f"`embedder` {wanted} is not one of {', '.join(NETWORKS)}, nor of the form "
                f"hf:NAME, hf:FOLDER or package.module:callable; leave it out for {NAME}"
            )
        function = partial(embed_images, progress=False, model=name)
        return Embedder(name, image_embedder_version(name), function, chunk=64)
    model = (wanted or DEFAULT_MODEL).removeprefix(HUB)
    quiet = partial(embed_texts, model=model, progress=False)
    return Embedder(model, text_embedder_version(model), quiet, chunk=256)


def _users_own(wanted: str) -> Embedder:
    """The callable; its version is the text of its module, so that an edit is noticed."""
    module_name, _, attribute = wanted.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise DataError(f"`embedder` {wanted}: {module_name} needs {error.name}") from error
        raise DataError(
            f"`embedder` {wanted}: no module {module_name!r} here or among the installed packages"
        ) from error
    function: Any = module
    for part in attribute.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise DataError(f"`embedder` {wanted}: {module_name} has no callable {attribute!r}")
    file = getattr(module, "__file__", None)
    source = Path(file).read_bytes() if file else str(getattr(module, "__version__", "")).encode()
    return Embedder(wanted, hashlib.sha256(source).hexdigest()[:16], function, chunk=256)
