"""Progress on standard error: bars on a terminal, else a plain line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from csot._core.text import duration

LINE_SECONDS = 10.0
"""Between plain lines: a log should not be full of them."""
SETTLING_SECONDS = 0.5
"""What is done so soon was known before, and says nothing about the speed."""

Update = Callable[[str, int, int], None]
"""Takes the name of a stage, how much of it is done, and how much there is."""


class ProgressBar:
    """One bar, of the stage that runs; it vanishes at the end."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._bars = Bars(*columns, console=console, transient=True)
        self._stage = "Reading"
        self._task = self._bars.add_task(self._stage, total=None)

    def __enter__(self) -> ProgressBar:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            # A task of its own: the time left is by the speed of this stage alone.
            self._bars.remove_task(self._task)
            self._stage, self._task = stage, self._bars.add_task(stage, total=total)
        self._bars.update(self._task, completed=done, total=total)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Out of the way of what is printed within the block."""
        self._bars.stop()
        try:
            yield
        finally:
            self._bars.start()


class ProgressLines:
    """For a log or a pipe: `Embedding images: 640 of 3,001, about 2 minutes left`."""

    def __init__(
        self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._clock = say, clock
        self._stage = ""
        self._said = clock()
        self._start = (0.0, 0)

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = self._clock()
        if stage != self._stage:
            self._stage, self._began, self._start = stage, now, (now, done)
        if now - self._began < SETTLING_SECONDS:
            self._start = (now, done)
        if now - self._said < LINE_SECONDS or done >= total:
            return
        self._said = now
        since, before = self._start
        speed = (done - before) / (now - since) if now > since else 0.0
        left = f", about {duration((total - done) / speed)} left" if speed > 0 else ""
        self._say(f"{stage}: {done:,} of {total:,}{left}")
