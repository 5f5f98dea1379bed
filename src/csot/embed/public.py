"""``csot.embed_images`` and ``csot.embed_texts``: features as `csot clean` makes them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from csot._core.pictures import picture_files
from csot._core.text import check_texts
from csot.embed.embedder import Embedder, Samples, resolve_embedder


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
        ``efficientnet-lite0`` (the default) or ``efficientnet-lite2``; ``hf:NAME`` or
        ``hf:FOLDER``, a vision model of transformers; or ``package.module:callable``, from a list
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
        A name or folder of sentence-transformers, by default ``all-MiniLM-L6-v2``; or
        ``package.module:callable``, from a list of texts to (N, D).
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
