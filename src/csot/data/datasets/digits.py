"""scikit-learn's digits: 1,797 grey images of 8 x 8 pixels, part of the package."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedShuffleSplit
from torch import Tensor

from csot.data.samples import InMemory
from csot.data.types import DatasetRequest, TestSet, TrainingData

TEST_ROWS = 450
SPLIT_SEED = 20231
"""Part of the data set: another seed is another data set."""
MEAN, STD = (0.3054,), (0.3760,)
"""Mean and deviation of the training pixels in [0, 1]."""
NAMES = ("digits",)


def read(name: str, request: DatasetRequest) -> TrainingData:
    """Needs no files."""
    return read_digits()


def read_digits() -> TrainingData:
    """1,347 training and 450 test images, stratified. Ids are rows of scikit-learn's own order."""
    images, truth, train, test = _read_and_split()  # indexed below, which copies
    return TrainingData(
        name="digits",
        train=InMemory(images[train]),
        labels=truth[train],
        class_names=[str(digit) for digit in range(10)],
        ids=[str(row) for row in train.tolist()],
        tests=[TestSet("test", InMemory(images[test]), truth[test])],
        true_labels=truth[train],
        mean=MEAN,
        std=STD,
        source={"kind": "digits", "path": "digits"},
    )


@cache
def _read_and_split() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images, classes, and the rows of both parts. The file is text, so it is read once."""
    pixels, target = load_digits(return_X_y=True)
    images = torch.from_numpy(np.rint(pixels * (255 / 16)).astype(np.uint8)).view(-1, 1, 8, 8)
    truth = torch.from_numpy(target.astype(np.int64))
    # Both parts come out shuffled: neighbours in the file are by the same writer.
    split = StratifiedShuffleSplit(1, test_size=TEST_ROWS, random_state=SPLIT_SEED)
    train, test = (torch.from_numpy(part) for part in next(split.split(pixels, target)))
    return images, truth, train, test
