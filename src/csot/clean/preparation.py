"""From samples to the matrix that their labels are judged by, and how to repeat it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from csot._core.pictures import fault
from csot.data import Columns, DataError, LabelledData
from csot.data.readers.arrays import is_array_folder
from csot.data.readers.table_file import CSV_SUFFIXES, PARQUET_SUFFIXES
from csot.data.types import Matrix
from csot.embed import Embedder, EmbeddingCache, resolve_embedder

Progress = Callable[[str, int, int], None]
"""Called with the name of a stage, how much of it is done, and how much there is."""


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
    medium = medium_of(data, columns)
    if medium == "images":
        embedder = resolve_embedder("images", wanted)
    elif medium == "texts":
        embedder = resolve_embedder("texts", wanted)
    elif wanted is not None:
        raise DataError(
            f"embedder {wanted!r} is for images and texts; name their column by image or text"
        )
    else:
        return None
    base = data if data.is_dir() else root or data.parent
    return PlannedEmbedding(embedder, EmbeddingCache(out, embedder, base))


def medium_of(data: Path, columns: Columns) -> str:
    """What labels are judged by: `images`, `texts`, `columns` of a table, or `arrays`."""
    if columns.image is not None or (data.is_dir() and not is_array_folder(data)):
        return "images"
    if columns.text is not None:
        return "texts"
    is_table = data.suffix.lower() in CSV_SUFFIXES | PARQUET_SUFFIXES and data.is_file()
    return "columns" if is_table else "arrays"


@dataclass(frozen=True)
class ColumnScale:
    """Columns of a table have units of their own; none may count more for that."""

    mean: Matrix
    deviation: Matrix

    @staticmethod
    def of(columns: Matrix) -> ColumnScale:
        return ColumnScale(columns.mean(0), columns.std(0))

    def __call__(self, columns: Matrix) -> Matrix:
        """Mean 0 and deviation 1 for the columns it was made from; constant ones become 0."""
        scaled: Matrix = np.zeros_like(columns)
        return np.divide(columns - self.mean, self.deviation, out=scaled, where=self.deviation > 0)


@dataclass(frozen=True)
class Preparation:
    """How samples became features, so that others can be prepared in the same way."""

    medium: str
    embedder: str | None = None
    embedder_version: str | None = None
    columns: list[str] | None = None
    scale: ColumnScale | None = None

    @staticmethod
    def of(data: LabelledData, planned: PlannedEmbedding | None) -> Preparation:
        if planned is not None:
            medium = "images" if data.images is not None else "texts"
            return Preparation(medium, planned.embedder.name, planned.embedder.version)
        if data.kind == "arrays":
            return Preparation("arrays")
        assert data.features is not None
        scale = ColumnScale.of(data.features)
        return Preparation("columns", columns=data.feature_columns, scale=scale)

    def as_dict(self) -> dict[str, object]:
        """For the summary of a run."""
        scale = None if self.scale is None else vars(self.scale)
        return {**vars(self), "scale": scale}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Preparation:
        """What `as_dict` gave; KeyError or TypeError where something is missing."""
        scale = values["scale"]
        if scale is not None:
            scale = ColumnScale(np.array(scale["mean"]), np.array(scale["deviation"]))
        return Preparation(**{**values, "scale": scale})


def features_of(
    data: LabelledData,
    planned: PlannedEmbedding | None,
    progress: Progress | None = None,
    scale: ColumnScale | None = None,
) -> Matrix:
    """(N, D); columns of a table by `scale`, else by their own."""
    samples = data.images if data.images is not None else data.texts
    if planned is not None and samples is not None:
        kind = "images" if data.images is not None else "texts"
        return planned.cache.embed(samples, _counted(f"Embedding {kind}", len(samples), progress))
    assert data.features is not None
    if data.kind == "arrays":
        return data.features
    return (scale or ColumnScale.of(data.features))(data.features)


def _counted(stage: str, total: int, progress: Progress | None) -> Callable[[int], None] | None:
    """`progress` for those who report how much more was done."""
    if progress is None:
        return None
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(stage, done, total)

    return advance
