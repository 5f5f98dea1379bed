"""The matrix that the labels are judged by."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from csot.commands.terminal import Terminal
from csot.data import Columns, DataError, LabelledData
from csot.data.arrays import is_array_folder
from csot.data.images import fault
from csot.data.labelled import Matrix
from csot.embed import Embedder, EmbeddingCache, resolve_embedder


@dataclass(frozen=True)
class PlannedEmbedding:
    """The embedder, and what it left in the run before."""

    embedder: Embedder
    cache: EmbeddingCache

    def fault(self, path: Path) -> str | None:
        """What is wrong with an image; one that was embedded and not touched since is whole."""
        return None if self.cache.knows(path) else fault(path)


def plan_embedding(
    data: Path, out: Path, columns: Columns, root: Path | None, wanted: str | None
) -> PlannedEmbedding | None:
    """None where the data brings features. A missing extra is named before anything is read."""
    is_image_folder = data.is_dir() and not is_array_folder(data)
    if columns.image is not None or is_image_folder:
        embedder = resolve_embedder("images", wanted)
    elif columns.text is not None:
        embedder = resolve_embedder("texts", wanted)
    elif wanted is not None:
        raise DataError(
            f"--embedder {wanted} is for images and texts; name their column with --image or --text"
        )
    else:
        return None
    base = data if is_image_folder else root or data.parent
    return PlannedEmbedding(embedder, EmbeddingCache(out, embedder, base))


def features_of(data: LabelledData, planned: PlannedEmbedding | None, terminal: Terminal) -> Matrix:
    """(N, D)."""
    samples = data.images if data.images is not None else data.texts
    if planned is not None and samples is not None:
        kind = "images" if data.images is not None else "texts"
        with terminal.bar(f"Embedding {kind}", len(samples)) as advance:
            return planned.cache.embed(samples, advance)
    assert data.features is not None
    return data.features if data.kind == "arrays" else _standardised(data.features)


def _standardised(columns: Matrix) -> Matrix:
    """Columns of a table have units of their own; none may count more for that."""
    deviation = columns.std(0)
    centred = columns - columns.mean(0)
    scaled: Matrix = np.zeros_like(centred)
    np.divide(centred, deviation, out=scaled, where=deviation > 0)
    return scaled
