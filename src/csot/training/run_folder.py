"""The files of a training run: configuration, inputs, metrics, checkpoints and snapshots."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import torch
import yaml
from pydantic import Field, model_validator
from torch import Tensor

from csot._core.errors import require
from csot._core.files import is_partial, write_text
from csot.data.readers.labelled_table import Columns
from csot.data.types import TrainingData
from csot.methods.core.contract import Predictions
from csot.runs import Run
from csot.runs.marker import MARKER
from csot.runs.snapshots import Snapshot, clear_partials, clear_snapshots, write_snapshot
from csot.runs.tables import write_csv
from csot.training.checkpoint import Checkpoints
from csot.training.config import RunConfig, Strict, read_yaml
from csot.training.presets import checked

CONFIG = "config.yaml"
INPUTS = "inputs.yaml"
METRICS = "metrics.csv"
CHECKPOINTS = "checkpoints"
IMAGES = "images"
TENSORBOARD = "tensorboard"

MOST_CLASSES = 100_000
MOST_ROWS = 20_000_000
"""Clothing1M has a million."""
LARGEST_INPUT = 1 << 26
"""Numbers of one input; the largest of the paper have 307,200."""
Side = Annotated[int, Field(ge=1)]


class InputFacts(Strict):
    """The form of the inputs that a run was trained on: enough to build its networks again."""

    kind: Literal["images", "features"]
    shape: Annotated[list[Side], Field(min_length=1, max_length=3)]
    """Shape of one input."""
    class_names: Annotated[list[str], Field(min_length=1, max_length=MOST_CLASSES)]
    mean: list[float] | None
    std: list[float] | None
    rows: Annotated[int, Field(ge=1, le=MOST_ROWS)]
    """Number of training rows: the length of per-sample state."""
    table: dict[str, Any] | None = None
    """How columns of a table became features: `TableFeatures.as_dict`."""
    prepared: dict[str, Any] | None = None
    """How images or texts became features: `Preparation.as_dict`."""
    columns: dict[str, str] | None = None
    """Columns of a table: `label`, `text`, `image` and `id`, where they were named."""

    @model_validator(mode="after")
    def _fits(self) -> InputFacts:
        if math.prod(self.shape) > LARGEST_INPUT:
            raise ValueError(f"the shape {self.shape} has more than {LARGEST_INPUT:,} numbers")
        if self.kind == "images":
            channels = self.shape[0]
            if len(self.shape) != 3 or len(self.mean or []) != channels != 0:
                raise ValueError(f"images of shape {self.shape} need a mean for each channel")
            if len(self.std or []) != channels or 0 in (self.std or []):
                raise ValueError("images need a deviation, not 0, for each channel")
        elif len(self.shape) != 1:
            raise ValueError(f"features have one dimension, not the shape {self.shape}")
        return self


class RunFolder:
    """config.yaml, inputs.yaml, metrics.csv and checkpoints/ of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = Checkpoints(path / CHECKPOINTS)

    def prepare(
        self, config: RunConfig, source: dict[str, str], *, resume: bool, force: bool
    ) -> None:
        """Prepare the folder, or raise if it cannot be used. No finished run is overwritten."""
        old = self.path / CONFIG
        if old.exists() and not force:
            if not resume:
                raise ValueError(
                    f"{self.path} holds a training run{self._reached()}: `resume` continues it, "
                    "`force` starts over, another `out` leaves it alone"
                )
            self._check_same_settings(config)
        elif not old.exists() and (self.path / MARKER).exists() and self._is_used():
            # `force` replaces training runs only: a run of the cleaner took other work to make.
            raise ValueError(f"{self.path} holds a run of another command: choose another `out`")
        # Raises if the folder is not a run. With `force` no source is given, so that the results
        # of the old run are deleted: an unfinished new run must not be taken for it.
        Run.create(self.path, force=force, source=None if force else source)
        if force and old.exists():
            self.checkpoints.clear()
            (self.path / METRICS).unlink(missing_ok=True)
            clear_snapshots(self.path)
        write_text(old, yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))

    def read_config(self) -> RunConfig:
        path = self.path / CONFIG
        if not path.exists():
            raise ValueError(f"{self.path} is not a training run: it has no {CONFIG}")
        return checked(RunConfig, read_yaml(path), str(path))

    def write_inputs(self, data: TrainingData, columns: Columns | None = None) -> None:
        # Of images and texts, `prepared` says it.
        table = None if data.prepared is not None else data.table_features
        facts = InputFacts(
            kind=data.train.kind,
            shape=list(data.train.shape),
            class_names=data.class_names,
            mean=None if data.mean is None else list(data.mean),
            std=None if data.std is None else list(data.std),
            rows=len(data),
            table=None if table is None else table.as_dict(),
            prepared=data.prepared,
            columns=named_columns(columns),
        )
        text = yaml.safe_dump(facts.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        write_text(self.path / INPUTS, text)

    def read_inputs(self) -> InputFacts:
        path = self.path / INPUTS
        if not path.exists():
            raise ValueError(f"{self.path} has no {INPUTS}: it was interrupted before it began")
        return checked(InputFacts, read_yaml(path), str(path))

    def write_metrics(self, history: list[dict[str, float]]) -> None:
        write_csv(self.path / METRICS, pd.DataFrame(history))

    def tensorboard_writer(self) -> Callable[[list[dict[str, float]]], None]:
        """Return a function that writes the last epoch's metrics for TensorBoard."""
        purpose = "writing TensorBoard logs"
        make = require("torch.utils.tensorboard", "tensorboard", purpose).SummaryWriter
        # Created late: it makes its folder at once, and a new run needs an empty folder.
        writers: list[Any] = []

        def write(history: list[dict[str, float]]) -> None:
            record = history[-1]
            epoch = int(record["epoch"])
            if not writers:
                # Discards what an interrupted run wrote about this epoch and later ones.
                writers.append(make(str(self.path / TENSORBOARD), purge_step=epoch))
            for name, value in record.items():
                writers[0].add_scalar(name, value, epoch)
            writers[0].flush()

        return write

    def run(self) -> Run:
        """Open the finished run."""
        return Run.open(self.path)

    def _is_used(self) -> bool:
        """Whether the folder holds more than the marker, which a run killed early leaves."""
        return any(path.name != MARKER and not is_partial(path) for path in self.path.iterdir())

    def _reached(self) -> str:
        epoch = self.checkpoints.epoch("last")
        return "" if epoch is None else f" that reached epoch {epoch}"

    def _check_same_settings(self, config: RunConfig) -> None:
        """Raise if the settings differ from those the run was started with."""
        theirs, ours = _flat(self.read_config().identity()), _flat(config.identity())
        for key in sorted({*theirs, *ours}):
            if theirs.get(key) != ours.get(key):
                raise ValueError(
                    f"{self.path} was begun with {key}={theirs.get(key)!r}, now it is "
                    f"{ours.get(key)!r}: resume with the same settings, or choose another `out`"
                )


def named_columns(columns: Columns | None) -> dict[str, str] | None:
    """Names by role, of those that other data of the same form has too."""
    if columns is None:
        return None
    roles = ("label", "text", "image", "id")
    return {role: name for role in roles if (name := getattr(columns, role)) is not None} or None


def is_first_process() -> bool:
    """Whether this is the first process, by the environment that its launcher set."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0


def _flat(values: Any, prefix: str = "") -> dict[str, Any]:
    """Nested dicts -> values by dotted key."""
    if not isinstance(values, dict):
        return {prefix: values}
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found


# Snapshots of a training run: of which rows, after which epochs, and how they are kept.

MOST_EPOCHS = 12
"""Snapshots of a run: dense at first, when features change fastest."""


@cache
def epochs_to_snapshot(epochs: int) -> frozenset[int]:
    """Choose at most `MOST_EPOCHS` epochs in a geometric sequence from the first to the last."""
    return frozenset(np.rint(np.geomspace(1, epochs, MOST_EPOCHS)).astype(int).tolist())


def snapshot_rows(rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw at most `count` of the rows trained on, in ascending order."""
    chosen = torch.randperm(len(rows), generator=generator)[:count]
    return rows[chosen.sort().values]


def snapshot_writer(folder: Path, data: TrainingData) -> Callable[[int, Tensor, Predictions], None]:
    """A function that writes the snapshot of an epoch to `folder`."""
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
