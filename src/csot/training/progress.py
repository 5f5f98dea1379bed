"""What a training run reports while it runs: one record per epoch, and callbacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from csot.methods.core.contract import Predictions
from csot.training.config import RunConfig
from csot.training.time_estimate import Workload

Record = dict[str, float]
"""The numbers of one epoch, by name: a row of metrics.csv."""


@dataclass
class Progress:
    """Callbacks of a training run; only the first process calls them.

    Parameters
    ----------
    on_step : callable
        Called with the number of the step, counted from 1 in each epoch.
    on_epoch : callable
        Called with the records of all epochs so far.
    on_start : callable
        Called with the configuration before the data are read.
    on_ready : callable
        Called with the `Workload` before the first epoch.
    on_estimate : callable
        Called with the estimated seconds that remain, after the first steps and after each epoch.
    on_words : callable
        Called with what a run starts from, in words.
    on_stage : callable
        Called with the name of a stage before the training, such as "Embedding images", how much
        of it is done, and how much there is.
    on_snapshot : callable
        Called after some epochs with the epoch, a few rows, and what the first network says of
        them.
    """

    on_step: Callable[[int], None] = lambda step: None
    on_epoch: Callable[[list[Record]], None] = lambda history: None
    on_start: Callable[[RunConfig], None] = lambda config: None
    on_ready: Callable[[Workload], None] = lambda workload: None
    on_estimate: Callable[[float], None] = lambda seconds: None
    on_words: Callable[[str], None] = lambda words: None
    on_stage: Callable[[str, int, int], None] = lambda stage, done, total: None
    on_snapshot: Callable[[int, Tensor, Predictions], None] = lambda epoch, rows, seen: None
