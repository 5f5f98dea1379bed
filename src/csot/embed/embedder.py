"""Embedders turn samples into features: built-in ones, or a callable of the user's own.

`csot.embed_images` and `csot.embed_texts` are at the end.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from csot._core.errors import DataError
from csot._core.pictures import picture_files
from csot._core.text import check_texts
from csot.embed.hub import embed_by_transformers, vision_embedder_version
from csot.embed.images import (
    NAME,
    NETWORKS,
    WINDOW_VERSION,
    embed_by_efficientnet,
    image_embedder_version,
)
from csot.embed.texts import DEFAULT_MODEL, embed_by_sentence_transformers, text_embedder_version
from csot.embed.timm_models import VIEWS, embed_by_timm, timm_embedder_version

HUB, TIMM = "hf:", "timm:"
Medium = Literal["images", "texts"]
Samples = Sequence[Path] | Sequence[str]


@dataclass(frozen=True)
class Embedder:
    """A function from a list of n paths or texts to (n, D), and what identifies it."""

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


def resolve_embedder(medium: Medium, wanted: str | None = None, view: int = 0) -> Embedder:
    """`package.module:callable`, or `hf:` and a name or folder of a model of transformers.

    For images also `timm:` and a name, or one of `NETWORKS`; for texts a name or folder of
    sentence-transformers, with or without `hf:`. `view` is the number of the view of images: see
    `csot.embed.images` and `has_views`.
    """
    if view and not has_views(medium, wanted):
        raise DataError(f"`embedder` {wanted} embeds {medium} as they are: it has no views")
    from_hub = wanted is not None and wanted.startswith(HUB)
    if wanted is not None and _is_users_own(wanted):
        return _users_own(wanted)
    if medium == "images":
        seen = f"-{WINDOW_VERSION}-{view}" if view else ""
        if wanted is not None and from_hub:
            model = wanted.removeprefix(HUB)
            version = vision_embedder_version(model) + seen
            by_model = partial(embed_by_transformers, model=model, view=view)
            return Embedder(wanted, version, by_model, chunk=64)
        if wanted is not None and wanted.startswith(TIMM):
            model = wanted.removeprefix(TIMM)
            version = timm_embedder_version(model) + (f"{seen}-{VIEWS}" if view else "")
            return Embedder(
                wanted, version, partial(embed_by_timm, model=model, view=view), chunk=64
            )
        name = wanted or NAME
        if name not in NETWORKS:
            raise DataError(
                f"`embedder` {wanted} is not one of {', '.join(NETWORKS)}, nor of the form "
                f"hf:NAME, hf:FOLDER, timm:NAME or package.module:callable; leave it out for "
                f"{NAME}"
            )
        function = partial(embed_by_efficientnet, progress=False, model=name, view=view)
        return Embedder(name, image_embedder_version(name) + seen, function, chunk=64)
    model = (wanted or DEFAULT_MODEL).removeprefix(HUB)
    quiet = partial(embed_by_sentence_transformers, model=model, progress=False)
    return Embedder(model, text_embedder_version(model), quiet, chunk=256)


def confirmed_embedder(run: Path, recorded: str | None, named: str | None) -> str | None:
    """The embedder that the user named, else the one that a run recorded.

    Code is imported only by a name of the user's own, since a run may be somebody else's.
    """
    if named is None and recorded is not None and _is_users_own(recorded):
        raise DataError(
            f"{run} was made with the embedder {recorded}, which would be imported and called: if "
            f"you trust it, name it with `embedder` {recorded}"
        )
    return named or recorded


def has_views(medium: Medium, wanted: str | None) -> bool:
    """Whether other views of an image than the plain one can be embedded."""
    return medium == "images" and (wanted is None or not _is_users_own(wanted))


def _is_users_own(wanted: str) -> bool:
    return ":" in wanted and not wanted.startswith((HUB, TIMM)) and not Path(wanted).exists()


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


def embed_images(
    images: Sequence[Any] | npt.NDArray[np.uint8],
    embedder: str | None = None,
    *,
    progress: bool = True,
) -> npt.NDArray[np.float32]:
    """Turn images into features, as `csot clean` does.

    Parameters
    ----------
    images : sequence of paths, PIL images or arrays; or an array (N, H, W, 3)
        Arrays are uint8, of shape (H, W, 3) or (H, W) each. Every image is scaled to the side that
        the network was trained on.
    embedder : str, optional
        `efficientnet-lite0` (the default) or `efficientnet-lite2`; `hf:NAME` or
        `hf:FOLDER`, a vision model of transformers; or `package.module:callable`, from a list
        of paths to (N, D).
    progress : bool
        Whether to show a progress bar with the time left.

    Returns
    -------
    (N, D) array of float32

    Examples
    --------
    >>> features = csot.embed_images(["cat.jpg", "dog.jpg"])        # doctest: +SKIP
    >>> csot.LabelCleaner().fit(features, labels)                   # doctest: +SKIP
    """
    chosen = resolve_embedder("images", embedder)
    _refuse_single(images, "images")
    with ExitStack() as stack:
        paths = picture_files(list(images), stack, "images")
        return _embed(chosen, paths, "Embedding images", progress)


def embed_texts(
    texts: Sequence[str], embedder: str | None = None, *, progress: bool = True
) -> npt.NDArray[np.float32]:
    """Turn texts into features, as `csot clean` does.

    Parameters
    ----------
    texts : sequence of str
        Also a pandas Series or a NumPy array of them.
    embedder : str, optional
        A name or folder of sentence-transformers, by default `all-MiniLM-L6-v2`; or
        `package.module:callable`, from a list of texts to (N, D).
    progress : bool
        Whether to show a progress bar with the time left.

    Returns
    -------
    (N, D) array of float32

    Examples
    --------
    >>> csot.embed_texts(["A late goal.", "Rain by noon."]).shape   # doctest: +SKIP
    (2, 384)
    """
    _refuse_single(texts, "texts")
    given = check_texts(texts, "texts")
    chosen = resolve_embedder("texts", embedder)
    return _embed(chosen, given, "Embedding texts", progress)


def _refuse_single(samples: Any, name: str) -> None:
    if isinstance(samples, str | bytes) or not hasattr(samples, "__len__"):
        raise ValueError(
            f"`{name}` must be a list of {name}, got {type(samples).__name__}; put a single one "
            "into a list"
        )
    if len(samples) == 0:
        raise ValueError(f"`{name}` is empty: pass at least one")


def _embed(
    embedder: Embedder, samples: Samples, title: str, progress: bool
) -> npt.NDArray[np.float32]:
    from rich.progress import track

    starts = range(0, len(samples), embedder.chunk)
    return np.concatenate(
        [
            embedder(samples[start : start + embedder.chunk])
            for start in track(starts, title, disable=not progress)
        ]
    )
