"""After training on few rows: would `csot clean` have predicted the held-out labels better?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from csot.clean.cleaner import LabelCleaner
from csot.data.types import TrainingData
from csot.training.from_config import has_units
from csot.training.label_knowledge import Difference, compare_predictions
from csot.training.loop import Finished

MOST_ROWS, MOST_NUMBERS = 5_000, 1_000_000
"""Most rows, and most numbers in all, for which a cleaner is fitted too: seconds on a CPU."""


@dataclass(frozen=True)
class AgainstCleaner:
    """How a cleaner, fitted to the rows that were trained on, predicts the held-out rows."""

    difference: Difference

    @property
    def is_cleaner_better(self) -> bool:
        return self.difference.believe == "cleaner"

    def words(self) -> str:
        """One sentence; empty where the cleaner is not clearly better."""
        if not self.is_cleaner_better:
            return ""
        found = self.difference
        return (
            f"csot clean predicts held-out labels better here: where the two differ, "
            f"{found.for_cleaner} of them side with it and {found.for_network} with the network. "
            "Clean these labels by csot clean, and predict by its run"
        )

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self.difference), "better": self.is_cleaner_better, "words": self.words()}


def compare_with_cleaner(
    data: TrainingData, finished: Finished, seed: int
) -> AgainstCleaner | None:
    """None for images, much data, several annotators, or where nothing was held out."""
    predicted, rows = finished.predicted, finished.rows
    is_asked = data.train.kind == "features" and data.votes is None
    is_small = len(data) <= MOST_ROWS and len(data) * data.train.shape[-1] <= MOST_NUMBERS
    if not (is_asked and is_small) or finished.held_out is None or predicted is None:
        return None
    features = features_of_rows(data)
    held = np.setdiff1d(np.arange(len(data)), rows.numpy())
    cleaner = LabelCleaner(random_state=seed, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            cleaner.fit(features[rows], names_of(data, data.targets)[rows])
        except ValueError:  # too few rows or classes for a cleaner
            return None
        found = np.asarray(cleaner.predict(features[held]))
    number = {name: code for code, name in enumerate(data.class_names)}
    theirs = torch.full((len(data),), -1)
    theirs[held] = torch.tensor([number[name] for name in found])
    return AgainstCleaner(compare_predictions(predicted, theirs, data.labels, rows))


def features_of_rows(data: TrainingData) -> np.ndarray[Any, Any]:
    """(N, D) as `csot clean` would have them; of several views, the plain one."""
    values = data.train.batch(torch.arange(len(data))).numpy()
    values = values[:, 0] if data.train.stored_views > 1 else values
    if has_units(data):
        assert data.table_features is not None
        return data.table_features.scale(values)
    return values


def names_of(data: TrainingData, labels: torch.Tensor) -> np.ndarray[Any, Any]:
    """Class names (N,), None where there is no label."""
    names = np.array([*data.class_names, None], dtype=object)
    return np.asarray(names[labels.numpy()])
