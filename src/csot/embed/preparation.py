"""From samples to the matrix that their labels are judged by, and how to repeat it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from csot._core.pictures import fault
from csot.data import Columns, DataError, LabelledData, TableFeatures
from csot.data.columns.table_features import balance
from csot.data.readers.arrays import is_array_folder
from csot.data.readers.table_file import is_table
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
    data: Path | None, out: Path, columns: Columns, root: Path | None, wanted: str | None
) -> PlannedEmbedding | None:
    """None where the data brings features. A missing extra is named before anything is read.

    `data` is None for a table in memory.
    """
    medium = medium_of(data, columns)
    if medium == "images":
        embedder = resolve_embedder("images", wanted)
    elif medium == "texts":
        embedder = resolve_embedder("texts", wanted)
    elif wanted is not None:
        raise DataError(
            f"`embedder` {wanted} is for images and texts; name their column with `image` or `text`"
        )
    else:
        return None
    base = root or (Path.cwd() if data is None else data if data.is_dir() else data.parent)
    return PlannedEmbedding(embedder, EmbeddingCache(out, embedder, base))


def medium_of(data: Path | None, columns: Columns) -> str:
    """What labels are judged by: `images`, `texts`, `columns` of a table, or `arrays`."""
    is_image_folder = data is not None and data.is_dir() and not is_array_folder(data)
    if columns.image is not None or is_image_folder:
        return "images"
    if columns.text is not None:
        return "texts"
    return "columns" if data is None or is_table(data) else "arrays"


@dataclass(frozen=True)
class Preparation:
    """How samples became features, so that others can be prepared in the same way."""

    medium: str
    embedder: str | None = None
    embedder_version: str | None = None
    table: TableFeatures | None = None
    """How columns of a table became features."""
    divisor: float = 1.0
    """Divides an embedding that is joined with columns, so that neither outweighs the other."""

    def as_dict(self) -> dict[str, object]:
        """Convert to a dict for the summary of a run."""
        return {**vars(self), "table": None if self.table is None else self.table.as_dict()}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Preparation:
        """What `as_dict` gave; KeyError, TypeError or ValueError where it is something else."""
        table = values["table"]
        fitted = None if table is None else TableFeatures.from_dict(table)
        return Preparation(**{**values, "table": fitted})


def features_of(
    data: LabelledData,
    planned: PlannedEmbedding | None,
    progress: Progress | None = None,
    known: Preparation | None = None,
) -> tuple[Matrix, Preparation]:
    """(N, D), and how it was made; made in the `known` way, if there is one."""
    columns: Matrix | None = None
    if data.table_features is not None:
        assert data.features is not None
        columns = data.table_features.scale(data.features)
    if planned is None:
        if columns is not None:
            return columns, Preparation("columns", table=data.table_features)
        assert data.features is not None
        return data.features, Preparation("arrays")
    medium = "images" if data.images is not None else "texts"
    samples = data.images if data.images is not None else data.texts
    assert samples is not None
    advance = counted(f"Embedding {medium}", len(samples), progress)
    embedded = planned.cache.embed(samples, advance)
    name, version = planned.embedder.name, planned.embedder.version
    if columns is None:
        return embedded, Preparation(medium, name, version)
    variance = float(columns.var(0).sum())
    divisor = balance(embedded, variance) if known is None else known.divisor
    joined = np.concatenate([embedded / divisor, columns], axis=1)
    return joined, Preparation(medium, name, version, data.table_features, divisor)


def counted(stage: str, total: int, progress: Progress | None) -> Callable[[int], None] | None:
    """`progress` for those who report how much more was done."""
    if progress is None:
        return None
    progress(stage, 0, total)
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(stage, done, total)

    return advance
