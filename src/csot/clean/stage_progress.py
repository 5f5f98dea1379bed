"""Progress of a fit, stage by stage."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Literal

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from csot.clean.model import STAGES

SHOW_FROM = 5_000
"""Rows from which progress is shown in a terminal by default."""


class StageProgress:
    """Reports the stages of a fit: to a callable, or as a progress line on standard error."""

    def __init__(self, wanted: bool | Callable[[str, int, int], None] | None, n_rows: int) -> None:
        self._report = wanted if callable(wanted) else None
        if wanted is None:
            wanted = n_rows >= SHOW_FROM and sys.stderr.isatty()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=wanted is not True,
        )
        self._task = self._progress.add_task("reading", total=len(STAGES))

    def begin(self, stage: str) -> None:
        done = STAGES.index(stage)
        if self._report is not None:
            self._report(stage, done, len(STAGES))
        self._progress.update(
            self._task, completed=done, description=f"{stage} ({done + 1} of {len(STAGES)})"
        )

    def __enter__(self) -> StageProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        self._progress.stop()
        return False
