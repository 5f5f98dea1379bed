"""What else is known about the labels: verified rows, a cleaner, several annotators."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from csot._core.errors import DataError, DataWarning, listed
from csot.clean.annotators import find_consensus
from csot.data.labels import encode
from csot.data.readers.verified import read_verified
from csot.data.types import LabelledData, TrainingData
from csot.runs import Run
from csot.runs.findings import PREDICTED

STANDARD_ERRORS = 2.0
"""Margin by which labels must side with one of two models to prefer it."""


def with_verified(data: TrainingData, files: Sequence[Path]) -> TrainingData:
    """The data with verified labels, of CSV files with the columns `id` and `label`."""
    names = np.array([*data.class_names, None], dtype=object)
    known = LabelledData(
        kind="verified",
        root=files[0].parent,
        ids=data.ids,
        labels=names[data.labels.numpy()],
        class_names=data.class_names,
    )
    decided = encode(read_verified(files, known), data.class_names, ", ".join(map(str, files)))
    return replace(data, verified=decided)


def with_consensus(data: TrainingData) -> TrainingData:
    """The data with the posterior of what several annotators agree on."""
    if data.votes is None:
        return data
    features = None
    if data.train.kind == "features":
        values = data.train.batch(torch.arange(len(data)))
        features = (values[:, 0] if values.ndim == 3 else values).numpy()
    votes = data.votes.assign(label=[str(label) for label in data.votes["label"]])
    found = find_consensus(
        votes[votes["sample"].isin(set(data.ids))],
        features,
        samples=data.ids,
        class_names=data.class_names,
    )
    return replace(data, posterior=torch.from_numpy(found.posterior).float())


def unverified(data: TrainingData) -> Tensor:
    """(N,) given labels, -1 where a label is missing or verified: verified rows are trained on."""
    if data.verified is None:
        return data.labels
    return torch.where(data.verified >= 0, -1, data.labels)


def starting_posterior(data: TrainingData) -> Tensor | None:
    """What to start from, (N, C); a verified label is certain."""
    if data.posterior is None or data.verified is None:
        return data.posterior
    certain = torch.nn.functional.one_hot(data.verified.clamp(min=0), len(data.class_names))
    return torch.where(data.verified[:, None] >= 0, certain.to(data.posterior), data.posterior)


@dataclass(frozen=True)
class CleanedRun:
    """What a run of `csot clean` says about the rows of the training data.

    Attributes
    ----------
    path : Path
    posterior : Tensor of shape (N, C)
        Probability of each class; the given label's is 1 for rows that the run does not have.
    predicted : Tensor of shape (N,)
        The class that it predicts for each row without its label, -1 for rows it does not have.
    """

    path: Path
    posterior: Tensor
    predicted: Tensor

    @staticmethod
    def read(path: Path, data: TrainingData) -> CleanedRun:
        """Match rows by id and classes by name; an error says what does not fit."""
        run = Run.open(path)
        summary, found = run.read_summary(), run.read_findings()
        probabilities = run.read_probabilities()
        if probabilities is None:
            raise DataError(f"{path} (`from_clean`) has no probabilities: run csot clean again")
        theirs = [str(name) for name in summary["class_names"]]
        if set(theirs) != set(data.class_names):
            raise DataError(
                f"{path} (`from_clean`) has the classes {listed(theirs)}, the data has "
                f"{listed(data.class_names)}: clean the same data"
            )
        order = [theirs.index(name) for name in data.class_names]
        row_of = {str(key): row for row, key in enumerate(found.index)}
        rows = np.array([row_of.get(key, -1) for key in data.ids])
        there = rows >= 0
        if not there.any():
            raise DataError(
                f"{path} (`from_clean`) knows none of the ids of the data, such as "
                f"{data.ids[0]!r}: clean the same data, with the same ids"
            )
        if not there.all():
            warnings.warn(
                f"{path} (`from_clean`) does not have {int((~there).sum()):,} of "
                f"{len(rows):,} rows: their given labels are believed",
                DataWarning,
                stacklevel=3,
            )
        given = data.labels.clamp(min=0)
        posterior = torch.nn.functional.one_hot(given, len(order)).float()
        posterior[data.labels < 0] = 1 / len(order)
        posterior[there] = torch.from_numpy(
            np.asarray(probabilities, dtype=np.float32)[rows[there]][:, order]
        )
        names = np.array([str(label) for label in found[PREDICTED]], dtype=object)
        predicted = torch.full((len(rows),), -1)
        predicted[there] = encode(names[rows[there]], data.class_names, str(path))
        return CleanedRun(path, posterior, predicted)


@dataclass(frozen=True)
class Difference:
    """Where cleaner and network differ, and which of them held-out labels side with.

    The cleaner predicts every row by models that have not seen it, and the network has not seen
    the held-out rows: there both are judged by the same labels, wrong ones included.
    """

    rows: int
    """Rows of all where they predict different classes."""
    held_out: int
    """How many of them are held-out rows whose label is one of the two classes."""
    for_network: int
    for_cleaner: int

    @property
    def believe(self) -> str:
        """The network, the cleaner, or neither if the labels do not tell."""
        gap = self.for_network - self.for_cleaner
        if abs(gap) < STANDARD_ERRORS * math.sqrt(max(1, self.held_out)):
            return "neither"
        return "network" if gap > 0 else "cleaner"

    def words(self) -> str:
        """One sentence."""
        if not self.rows:
            return "cleaner and network agree on every row"
        counted = (
            f"cleaner and network differ on {self.rows:,} rows; of the held-out ones among them, "
            f"{self.for_network} labels side with the network and {self.for_cleaner} with the "
            "cleaner"
        )
        advice = {
            "network": "believe the network",
            "cleaner": "believe the cleaner",
            "neither": "too close to tell, so review these rows first",
        }
        return f"{counted}: {advice[self.believe]}"

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "believe": self.believe, "words": self.words()}


def compare_predictions(
    network: Tensor, cleaner: Tensor, labels: Tensor, trained_on: Tensor
) -> Difference:
    """Classes (N,) that each predicts, given labels (N,), and the rows trained on."""
    differs = (network != cleaner) & (cleaner >= 0)
    held = torch.ones(len(labels), dtype=torch.bool)
    held[trained_on] = False
    tried = differs & held
    sides = [int((tried & (labels == predicted)).sum()) for predicted in (network, cleaner)]
    return Difference(int(differs.sum()), sum(sides), *sides)


def disagreeing(network: Tensor, cleaner: Tensor, names: Sequence[str]) -> list[str]:
    """For each row, a sentence if the cleaner and the network predict different classes."""
    pairs = zip(network.tolist(), cleaner.tolist(), strict=True)
    return [f" The cleaner predicts {names[b]}." if 0 <= b != a else "" for a, b in pairs]
