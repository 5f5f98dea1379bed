"""What readers return: labelled data for cleaning, and training data with its test sets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from csot._core.errors import DataError
from csot.data.columns import TableFeatures
from csot.data.samples import Samples

if TYPE_CHECKING:
    import pandas as pd

Labels = npt.NDArray[np.object_]
Matrix = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Skipped:
    """A row or file that was left out, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class LabelledData:
    """N samples with their given labels. Nothing in it is ever written back.

    Either `features`, `images` or `texts` is given; images and texts may have `features` of a
    table in addition.
    """

    kind: str
    """`images`, `table` or `arrays`."""
    root: Path
    """The folder that relative image paths start from."""
    ids: list[str]
    """Unique, (N,)."""
    labels: Labels
    """All `str` or all `int`, (N,); None where there is none."""
    class_names: list[str] | None = None
    """The user's own order of the classes, where one was given."""
    features: Matrix | None = None
    """(N, D); may be a memory map. Of a table before scaling: see `table_features`."""
    pred_probs: Matrix | None = None
    """(N, C); columns in the order of `class_names`, or of the sorted labels."""
    images: list[Path] | None = None
    texts: list[str] | None = None
    table: pd.DataFrame | None = None
    """The user's own table, every row of it, indexed by id."""
    label_column: str | None = None
    feature_columns: list[str] | None = None
    table_features: TableFeatures | None = None
    """How columns of the table become `features`, and how these are scaled."""
    uses: str | None = None
    """Which columns of a table are used and which are not, in words."""
    groups: npt.NDArray[np.object_] | None = None
    """(N,); samples of one group belong together, missing where a sample belongs to none."""
    votes: pd.DataFrame | None = None
    """A row per vote (sample, annotator, label), where several annotators labelled the samples;
    `labels` are then the majority's."""
    skipped: list[Skipped] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: npt.NDArray[np.intp]) -> LabelledData:
        """Some of the samples, in that order; the table stays whole."""
        chosen = rows.tolist()

        def some(values: list[Any] | None) -> list[Any] | None:
            return None if values is None else [values[row] for row in chosen]

        return replace(
            self,
            ids=[self.ids[row] for row in chosen],
            labels=self.labels[rows],
            features=None if self.features is None else self.features[rows],
            pred_probs=None if self.pred_probs is None else self.pred_probs[rows],
            images=some(self.images),
            texts=some(self.texts),
            groups=None if self.groups is None else self.groups[rows],
        )


IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class TestSet:
    """Samples with labels that are taken to be right."""

    __test__ = False  # the name starts with Test, but pytest has nothing to collect here

    name: str
    samples: Samples
    labels: Tensor
    """int64 (M,)."""


@dataclass(frozen=True)
class TrainingData:
    """N samples with their given labels, and what they are tested on."""

    name: str
    """`digits`, `cifar10`, or the path's name."""
    train: Samples
    labels: Tensor
    """The given labels, int64 (N,); -1 where there is none."""
    class_names: list[str]
    ids: list[str]
    """Unique, (N,)."""
    tests: list[TestSet]
    """May be empty; the first is the one reported."""
    true_labels: Tensor | None = None
    """int64 (N,), only for evaluation: no method sees them."""
    superclasses: Tensor | None = None
    """int64 (C,): the coarse class of each class."""
    mean: tuple[float, ...] | None = None
    """Mean of the pixels in [0, 1], per channel; None for features."""
    std: tuple[float, ...] | None = None
    root: Path | None = None
    """The folder of the image files; None for arrays."""
    images: list[Path] | None = None
    texts: list[str] | None = None
    table_features: TableFeatures | None = None
    """How the columns of a table became features."""
    uses: str | None = None
    """A sentence: which columns of a table are used, and which are ignored and why."""
    prepared: dict[str, Any] | None = None
    """How images or texts became features: `csot.embed.Preparation.as_dict`."""
    votes: pd.DataFrame | None = None
    """A row per vote (sample, annotator, label), where several annotators labelled the samples."""
    verified: Tensor | None = None
    """int64 (N,): labels that a person has verified, -1 where there is none."""
    posterior: Tensor | None = None
    """float32 (N, C): what a cleaner or several annotators say, to start from."""
    source: dict[str, str] = field(default_factory=dict)
    """`kind` and `path`, and `root` where there are image files: as in a run's summary."""

    def __post_init__(self) -> None:
        n, classes = len(self.train), len(self.class_names)
        check_labels(self.labels, n, classes, f"{self.name}: labels", missing=True)
        if self.true_labels is not None:
            check_labels(self.true_labels, n, classes, f"{self.name}: true labels", missing=True)
        for test in self.tests:
            where = f"{self.name}: labels of the test set {test.name!r}"
            check_labels(test.labels, len(test.samples), classes, where)
            if test.samples.shape != self.train.shape:
                raise DataError(
                    f"{self.name}: the test set {test.name!r} holds samples of shape "
                    f"{test.samples.shape}, the training set {self.train.shape}; they must agree"
                )
        assert len(self.ids) == n
        assert self.images is None or len(self.images) == n

    def __len__(self) -> int:
        return len(self.train)

    @property
    def targets(self) -> Tensor:
        """(N,) labels to train on: the verified ones, else the given ones."""
        if self.verified is None:
            return self.labels
        return torch.where(self.verified >= 0, self.verified, self.labels)

    def with_labels(self, labels: Tensor) -> TrainingData:
        """The same samples with other given labels. True labels stay as they are."""
        return replace(self, labels=labels)

    def take(self, rows: Tensor) -> TrainingData:
        """Some of the training rows; the test sets stay."""
        chosen = rows.tolist()
        return replace(
            self,
            train=self.train.subset(rows),
            labels=self.labels[rows],
            ids=[self.ids[row] for row in chosen],
            true_labels=None if self.true_labels is None else self.true_labels[rows],
            verified=None if self.verified is None else self.verified[rows],
            posterior=None if self.posterior is None else self.posterior[rows],
            images=None if self.images is None else [self.images[row] for row in chosen],
            texts=None if self.texts is None else [self.texts[row] for row in chosen],
        )


def check_labels(labels: Tensor, n: int, classes: int, where: str, missing: bool = False) -> None:
    """int64 (n,) in 0 ... classes - 1, or -1 where `missing` allows it."""
    if labels.dtype != torch.int64 or labels.shape != (n,):
        raise DataError(
            f"{where}: {labels.dtype} {tuple(labels.shape)}; int64 ({n},) is needed, one per sample"
        )
    wrong = (labels < (-1 if missing else 0)) | (labels >= classes)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise DataError(
            f"{where}: {int(labels[row])} in row {row} (from 0); there are {classes} classes, "
            f"0 to {classes - 1}"
        )


DATA_DIR = Path("data")


@dataclass(frozen=True)
class DatasetRequest:
    """Where the files of a data set are, and how they are read."""

    data_dir: Path = DATA_DIR
    download: bool = False
    """Whether files that are not there may be fetched."""
    image_size: int | None = None
    """Side of the images, where they are files; else the data set's own."""
    allow_outside: bool = False
    """Whether images outside of `data_dir` are read."""
    whole: bool = False
    """Whether training images are whole, for crops of all of them, or cut to squares."""
