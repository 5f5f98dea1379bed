"""What a training run keeps in its folder besides the records of every run."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
import yaml
from pydantic import Field, model_validator

from csot._core.atomic import is_partial, write_text
from csot.data.datasets.registry import TrainingData
from csot.runs import Run
from csot.runs.run import MARKER
from csot.runs.tables import write_csv
from csot.training.checkpoint import Checkpoints
from csot.training.config import RunConfig, Strict
from csot.training.presets import checked
from csot.training.yaml_text import read_yaml

CONFIG = "config.yaml"
INPUTS = "inputs.yaml"
METRICS = "metrics.csv"
CHECKPOINTS = "checkpoints"
IMAGES = "images"


MOST_CLASSES = 100_000
MOST_ROWS = 20_000_000
"""Clothing1M has a million."""
LARGEST_INPUT = 1 << 26
"""Numbers of one input; the largest of the paper have 307,200."""
Side = Annotated[int, Field(ge=1)]


class InputFacts(Strict):
    """What the networks of a run were built for: enough to build them again."""

    kind: Literal["images", "features"]
    shape: Annotated[list[Side], Field(min_length=1, max_length=3)]
    """Of one input."""
    class_names: Annotated[list[str], Field(min_length=1, max_length=MOST_CLASSES)]
    mean: list[float] | None
    std: list[float] | None
    rows: Annotated[int, Field(ge=1, le=MOST_ROWS)]
    """Training rows, of which methods remember something each."""
    table: dict[str, Any] | None = None
    """How columns of a table became features: `TableFeatures.as_dict`."""

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
        """Make the folder ready, or say why it cannot be used. Nothing finished is overwritten."""
        old = self.path / CONFIG
        if old.exists() and not force:
            if not resume:
                raise ValueError(
                    f"{self.path} holds a training run{self._reached()}: --resume goes on with it, "
                    "--force starts anew, another --out leaves it alone"
                )
            self._refuse_other(config)
        elif (self.path / MARKER).exists() and not force and self._is_used():
            raise ValueError(f"{self.path} holds a run of another command: choose another --out")
        # First of all it says whether the folder is ours to change. `force` knows no source: then
        # the results of an older run go, and an unfinished new one is not taken for it.
        Run.create(self.path, force=force, source=None if force else source)
        if force and old.exists():
            self.checkpoints.clear()
            (self.path / METRICS).unlink(missing_ok=True)
        write_text(old, yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))

    def read_config(self) -> RunConfig:
        path = self.path / CONFIG
        if not path.exists():
            raise ValueError(f"{self.path} is no training run: it has no {CONFIG}")
        return checked(RunConfig, read_yaml(path), str(path))

    def write_inputs(self, data: TrainingData) -> None:
        facts = InputFacts(
            kind=data.train.kind,
            shape=list(data.train.shape),
            class_names=data.class_names,
            mean=None if data.mean is None else list(data.mean),
            std=None if data.std is None else list(data.std),
            rows=len(data),
            table=None if data.table_features is None else data.table_features.as_dict(),
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

    def run(self) -> Run:
        """The finished run."""
        return Run.open(self.path)

    def _is_used(self) -> bool:
        """Whether there is more than the marker, which is all that a very early kill leaves."""
        return any(path.name != MARKER and not is_partial(path) for path in self.path.iterdir())

    def _reached(self) -> str:
        epoch = self.checkpoints.epoch("last")
        return "" if epoch is None else f" that reached epoch {epoch}"

    def _refuse_other(self, config: RunConfig) -> None:
        """A run goes on with the settings it began with."""
        theirs, ours = _flat(self.read_config().identity()), _flat(config.identity())
        for key in sorted({*theirs, *ours}):
            if theirs.get(key) != ours.get(key):
                raise ValueError(
                    f"{self.path} was begun with {key}={theirs.get(key)!r}, now it is "
                    f"{ours.get(key)!r}: resume with the same settings, or choose another --out"
                )


def is_first_process() -> bool:
    """Before the processes know each other: by what launched them."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0


def _flat(values: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(values, dict):
        return {prefix: values}
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found
