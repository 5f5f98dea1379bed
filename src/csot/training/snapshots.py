"""Snapshots of a training run: of which rows, after which epochs, and how they are kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from csot.data.types import TrainingData
from csot.methods.core.contract import Predictions
from csot.runs.snapshots import Snapshot, clear_partials, write_snapshot

MOST_EPOCHS = 12
"""Snapshots of a run: dense at first, when features change fastest."""


@cache
def snapshot_epochs(epochs: int) -> frozenset[int]:
    """At most `MOST_EPOCHS` epochs in a geometric sequence from the first to the last."""
    return frozenset(np.rint(np.geomspace(1, epochs, MOST_EPOCHS)).astype(int).tolist())


def snapshot_rows(rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """At most ``count`` of the rows trained on, at random, in ascending order."""
    chosen = torch.randperm(len(rows), generator=generator)[:count]
    return rows[chosen.sort().values]


def snapshot_writer(folder: Path, data: TrainingData) -> Callable[[int, Tensor, Predictions], None]:
    """A function that writes the snapshot of an epoch to ``folder``."""
    clear_partials(folder)

    def write(epoch: int, rows: Tensor, seen: Predictions) -> None:
        rows = rows.cpu()
        truth = data.true_labels
        snapshot = Snapshot(
            seen.probs.float().cpu().numpy(),
            seen.features.float().cpu().numpy(),
            data.labels[rows].numpy(),
            None if truth is None else truth[rows].numpy(),
            [str(name) for name in data.class_names],
        )
        write_snapshot(folder, epoch, snapshot)

    return write
