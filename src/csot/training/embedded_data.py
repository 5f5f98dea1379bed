"""Photographs and texts as features: read, embedded once, kept in the run by content."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from csot._core.errors import DataError
from csot.data.datasets.core.dataset_registry import balanced_rows
from csot.data.labels import class_names_of, encode
from csot.data.readers.labelled_table import Columns
from csot.data.readers.training import Sets, assemble, read_sets, to_float32
from csot.data.samples import InMemory, Samples, StoredViews
from csot.data.types import LabelledData, Matrix, TrainingData
from csot.embed import Embedder, EmbeddingCache
from csot.embed.cache import INDEX, MATRIX
from csot.embed.embedder import has_views, resolve_embedder
from csot.embed.preparation import (
    PlannedEmbedding,
    Preparation,
    counted,
    features_of,
    medium_of,
)
from csot.training.config import DataConfig

EMBEDDED = "embedded"
"""Folder of a run for embeddings besides those of the training data itself."""
MORE_VIEWS = 1
"""Views besides the plain one, where there are few images."""
LARGE = 1e4
"""Features up to here are kept in half precision."""
AFFORDABLE = 40_000
"""Images that are embedded for views at most: minutes on a CPU."""
OnStage = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Place:
    """Where the data is, and where its embeddings are kept."""

    path: Path
    out: Path
    """Folder of the run."""
    columns: Columns
    root: Path | None = None
    test: Path | None = None
    allow_outside: bool = False
    cache: Path | None = None
    """Folder that embeddings are kept in for several runs; else the run keeps its own."""
    known: Path | None = None
    """Another run whose embeddings are taken over."""

    def embeddings(self, embedder: Embedder, name: str = "") -> EmbeddingCache:
        """What is known about an embedder; `name` tells sets and views of a run apart."""
        path = self.path
        if self.cache is None:
            folder = self.out / EMBEDDED / name if name else self.out
            base = self.root or (path if path.is_dir() else path.parent)
            return EmbeddingCache(folder, embedder, base)
        digest = hashlib.sha256(f"{embedder.name}\0{embedder.version}".encode()).hexdigest()
        folder = self.cache / f"{re.sub(r'[^a-z0-9]+', '-', embedder.name.lower())}-{digest[:12]}"
        return EmbeddingCache(folder, embedder, Path(path.resolve().anchor), keep=True)


@dataclass(frozen=True)
class Pending:
    """Data that was read, and is still to be embedded."""

    place: Place
    sets: Sets
    embedder: Embedder
    views: int
    """Views of each image, the plain one included."""

    def outline(self) -> TrainingData:
        """Ids, labels and classes as after `embed`, without features; it warns of nothing."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tests = [InMemory(torch.zeros(len(data), 1)) for _, _, data in self.sets.tests]
            return assemble(self.sets, InMemory(torch.zeros(len(self.sets.train), 1)), tests)

    def embed(self, on_stage: OnStage | None = None) -> TrainingData:
        """Embed what is not known yet; needs the folder of the run."""
        train = self.sets.train
        if self.place.known is not None and self.place.cache is None:
            copy_embeddings(self.place.known, self.place.out)
        plain, how = features_of(train, self._planned(), on_stage)
        views = [plain, *(self._view(number, plain, how, on_stage) for number in self._more())]
        samples: Samples = InMemory(to_float32(plain, self.place.path))
        if len(views) > 1:
            # Half precision where it can: this is most of the memory that a run needs.
            kind = np.float16 if np.abs(plain).max() < LARGE else np.float32
            samples = StoredViews([torch.from_numpy(np.asarray(x, kind)) for x in views])
        tests = [self._test(name, data, how, on_stage) for name, _, data in self.sets.tests]
        return assemble(self.sets, samples, tests, prepared=how.as_dict())

    def _more(self) -> range:
        return range(1, self.views)

    def _view(
        self, number: int, plain: Matrix, how: Preparation, on_stage: OnStage | None
    ) -> Matrix:
        """Features of one view; columns of a table are taken from the plain view."""
        images = self.sets.train.images
        assert images is not None
        embedder = resolve_embedder("images", how.embedder, view=number)
        cache = self.place.embeddings(embedder, f"view-{number}")
        stage = f"Embedding view {number + 1} of {self.views}"
        embedded = cache.embed(images, counted(stage, len(images), on_stage))
        beside = plain[:, embedded.shape[1] :]
        return np.concatenate([embedded / how.divisor, beside], axis=1)

    def _test(
        self, name: str, data: LabelledData, how: Preparation, on_stage: OnStage | None
    ) -> Samples:
        check_medium(data, how, f"the test set {name!r}")
        features, _ = features_of(data, self._planned(f"test-{name}"), on_stage, how)
        return InMemory(to_float32(features, name))

    def _planned(self, name: str = "") -> PlannedEmbedding:
        """The embedder, and what is known about it by now."""
        return PlannedEmbedding(self.embedder, self.place.embeddings(self.embedder, name))


def read_pending(place: Place, config: DataConfig, devices: int = 1) -> Pending:
    """Read images or texts and their labels; nothing is embedded or written yet."""
    if devices > 1 or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise DataError(
            "features are computed and trained on by one process: leave out `devices`, or train a "
            "network on the images with `backbone`"
        )
    if config.image_size is not None:
        raise DataError(
            f"`image_size` {config.image_size}: {config.embedder} has a size of its own; leave it "
            "out, or name a network with `backbone`"
        )
    medium = medium_of(place.path, place.columns)
    assert medium in ("images", "texts")
    embedder = resolve_embedder("images" if medium == "images" else "texts", config.embedder)
    planned = PlannedEmbedding(embedder, place.embeddings(embedder))
    sets = read_sets(
        place.path,
        place.test,
        None if place.columns == Columns() else place.columns,
        place.root,
        place.allow_outside,
        planned.fault,
    )
    if config.limit is not None:
        labels = encode(sets.train.labels, class_names_of(sets.train), str(place.path))
        rows = balanced_rows(labels, config.limit, 0).numpy()
        sets = replace(sets, train=sets.train.take(rows))
    return Pending(place, sets, embedder, count_views(sets.train, config))


def count_views(data: LabelledData, config: DataConfig) -> int:
    """Number of views: as configured, else as many as can be embedded in minutes; 1 for texts."""
    possible = data.images is not None and has_views("images", config.embedder)
    if config.stored_views is None:
        return 1 + min(MORE_VIEWS, AFFORDABLE // len(data)) if possible else 1
    if config.stored_views > 1 and not possible:
        raise DataError(
            f"stored_views {config.stored_views}: only images that are embedded by a network of "
            "csot, hf: or timm: have more views than one"
        )
    return config.stored_views


def copy_embeddings(source: Path, target: Path) -> None:
    """Take over what another run has embedded; the cache checks whether it fits."""
    if (source / INDEX).exists() and not (target / INDEX).exists():
        target.mkdir(parents=True, exist_ok=True)
        # The index last: without it the matrix means nothing.
        for name in (MATRIX, INDEX):
            shutil.copyfile(source / name, target / name)


def check_medium(data: LabelledData, how: Preparation, where: str) -> None:
    """Raise if there are no images where the run takes images, and the like."""
    found = "images" if data.images is not None else "texts" if data.texts is not None else "none"
    if found != how.medium:
        raise DataError(f"{where} holds no {how.medium}, which the run is trained on")
