"""How much work a run is, and how long it will take: from the first steps, then by epoch."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from csot._core.text import duration

STEPS = 3
"""Least number of steps to measure; the first one is left out, as it also allocates memory."""
SECONDS = 1.0
"""Least time to measure, unless the epoch is over before."""
RECENT = 3
"""Epochs that the remaining time is estimated from."""
LONG = 3600.0
"""Seconds on a CPU from which a warning is worth it."""


@dataclass(frozen=True)
class Workload:
    """What a run is going to do.

    Attributes
    ----------
    network : str
        Name of the network.
    networks : int
        How many of them are trained.
    parameters : int
        Of all of them, and of what else the method trains.
    rows : int
        Rows trained on.
    epochs, batch_size : int
    device : str
        Such as "cpu" or "cuda".
    done : int
        Epochs that an earlier process has finished.
    """

    network: str
    networks: int
    parameters: int
    rows: int
    epochs: int
    batch_size: int
    device: str
    done: int = 0

    def words(self) -> str:
        """One line for the terminal."""
        several = f"{self.networks} x " if self.networks > 1 else ""
        resumed = f", {self.done} of them done" if self.done else ""
        return (
            f"{several}{self.network} with {self.parameters:,} parameters on {self.device}: "
            f"{self.epochs} epochs of {self.rows:,} rows{resumed}"
        )


class TimeEstimate:
    """Estimates the remaining time, and warns once if it is long on a CPU.

    Parameters
    ----------
    workload : Workload
    on_estimate : callable
        Called with the estimated seconds that remain: after the first steps, and after each epoch.
    now : callable
        The clock.
    """

    def __init__(
        self,
        workload: Workload,
        on_estimate: Callable[[float], None],
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._workload = workload
        self._on_estimate = on_estimate
        self._now = now
        self._epoch_ends = [now()]
        self._first_step: float | None = None
        self._is_given = False
        self._has_warned = False

    def step(self, step: int) -> None:
        """Note the end of a step, counted from 1 in each epoch."""
        if self._is_given:
            return
        if self._first_step is None:
            self._first_step = self._now()
            return
        measured = self._now() - self._first_step
        if step - 1 >= STEPS and measured >= SECONDS:
            work = self._workload
            steps = -(-work.rows // work.batch_size)
            left = steps * (work.epochs - work.done) - step
            self._give(measured / (step - 1) * max(0, left))

    def epoch(self, epoch: int) -> None:
        """Note the end of an epoch, counted from 1 over the whole run."""
        self._epoch_ends = [*self._epoch_ends[-RECENT:], self._now()]
        mean = (self._epoch_ends[-1] - self._epoch_ends[0]) / (len(self._epoch_ends) - 1)
        self._give(mean * (self._workload.epochs - epoch))

    def _give(self, seconds: float) -> None:
        self._is_given = True
        self._on_estimate(seconds)
        if seconds > LONG and self._workload.device == "cpu" and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"this takes about {duration(seconds)} on a CPU: use a GPU, fewer epochs "
                "(epochs), a smaller network (network.name, network.width) or fewer rows "
                "(`limit`); an interrupted run continues with `resume`",
                stacklevel=2,
            )
