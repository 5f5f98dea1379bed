"""What a command prints: results to standard output; progress, warnings and errors to stderr."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TextIO

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.segment import Segment
from rich.text import Text

from csot._core.errors import LONGEST_MESSAGE, clip, error_words
from csot._core.text import duration, one_line, printable

# Progress on standard error: bars on a terminal, else a plain line now and then.

LINE_SECONDS = 10.0
"""Between plain lines: a log should not be full of them."""
SETTLING_SECONDS = 0.5
"""Work finished this soon came from a cache, and says nothing about the speed."""

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
        """Hide the bar while something is printed in the block."""
        self._bars.stop()
        try:
            yield
        finally:
            self._bars.start()


class ProgressLines:
    """Progress for a log or a pipe: `Embedding images: 640 of 3,001, about 2 minutes left`."""

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


def program() -> list[str]:
    """`csot` where that is this program, else its path: `.venv/bin/csot` in a checkout."""
    folder = Path(sys.executable).parent
    found = shutil.which("csot")
    if found is not None and Path(found).resolve().parent == folder.resolve():
        return ["csot"]
    script = folder / "csot"
    if not script.exists():
        return [sys.executable, "-m", "csot"]
    return [str(script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script)]


EXPECTED = (ValueError, OSError, ImportError, FloatingPointError)
"""Errors that users can fix: one red line and exit code 2, no traceback."""


PARAMETER = re.compile(r"`([a-z]+(?:_[a-z]+)*)`")
OPTIONS = frozenset(
    {
        *("allow_outside", "allow_remote", "annotator", "backbone", "cache", "class_prior"),
        *("data_dir", "devices", "download", "duplicates", "embedder", "epochs", "features"),
        *("force", "from_clean", "frozen", "group", "host", "id", "image", "image_size", "label"),
        *("limit", "merge_variants", "methods", "min_confidence", "onnx", "out", "port", "resume"),
        *("reviewer", "root", "rows", "same_data", "seed", "set", "test", "text", "torch_export"),
        *("truth", "vary", "verified", "votes", "with"),
    }
)
"""Parameters of functions that are options of commands."""


RENAMED = {"judge_with": "with", "n_rows": "rows", "settings": "set"}


def as_options(message: str) -> str:
    """Parameters that a message of the library names in backticks, as options: `out` -> --out."""

    def option(found: re.Match[str]) -> str:
        name = found[1]
        name = RENAMED.get(name, name)
        return f"--{name.replace('_', '-')}" if name in OPTIONS else found[0]

    return PARAMETER.sub(option, message)


class Printable:
    """Anything that rich can draw, without the control characters of the text in it."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self._inner, options):
            # What is marked as control comes from rich itself.
            yield segment if segment.control else segment._replace(text=printable(segment.text))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._inner)


class Terminal:
    """A block in which warnings are yellow lines, and errors red ones that end the command."""

    def __init__(
        self,
        quiet: bool = False,
        as_json: bool = False,
        resume: str = "the same command continues where this one stopped",
    ) -> None:
        self._resume = resume
        self._as_json = as_json
        self._is_quiet = quiet
        self._out = Console(quiet=quiet or as_json)
        self._err = Console(stderr=True)
        self.shows_progress = not quiet and self._err.is_terminal
        self._bar: ProgressBar | None = None
        self._warnings = warnings.catch_warnings()
        self._seen: set[str] = set()

    def __enter__(self) -> Terminal:
        self._warnings.__enter__()
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = self._show_warning
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        self._warnings.__exit__(kind, error, trace)
        if isinstance(error, KeyboardInterrupt):
            self._line(f"interrupted: {self._resume}", "red")
            raise typer.Exit(130) from None
        if isinstance(error, EXPECTED):
            self._line(f"error: {error_words(error)}", "red")
            raise typer.Exit(2) from None
        return False

    def silence(self) -> None:
        """Errors only: for all processes but the first."""
        self._out.quiet = self._is_quiet = True
        self.shows_progress = self._as_json = False
        warnings.simplefilter("ignore")

    def say(self, line: RenderableType = "") -> None:
        """Print to standard output, unless quiet."""
        is_text = isinstance(line, str | Text)
        # As text: what looks like rich's markup in a file's name is part of the name.
        drawn = Text(line) if isinstance(line, str) else line
        with nullcontext() if self._bar is None else self._bar.hidden():
            self._out.print(Printable(drawn), soft_wrap=is_text, highlight=False)

    def result(self, facts: Any) -> None:
        """Print as JSON if --json is given: then nothing else is on standard output."""
        if self._as_json:
            from csot.runs.summary import dumps

            # At once, and not by rich: programs read it from a pipe.
            try:
                print(dumps(facts), flush=True)
            except BrokenPipeError:
                # The reader, such as `head`, has seen enough. Python flushes once more at the end.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(1) from None

    def warn(self, message: str) -> None:
        """Once each."""
        if message not in self._seen:
            self._seen.add(message)
            self._line(f"warning: {message}", "yellow")

    @contextmanager
    def bar(self, description: str, total: int) -> Iterator[Callable[[int], None]]:
        """Progress of one stage; the function advances it."""
        done = 0
        with self.stages() as update:
            update(description, 0, total)

            def advance(count: int) -> None:
                nonlocal done
                done += count
                update(description, done, total)

            yield advance

    @contextmanager
    def stages(self) -> Iterator[Update]:
        """Progress of several stages; the function is called with each."""
        if self.shows_progress:
            with ProgressBar(self._err) as self._bar:
                try:
                    yield self._bar
                finally:
                    self._bar = None
        else:
            yield ProgressLines(self._say_progress)

    def _say_progress(self, line: str) -> None:
        if not self._is_quiet:
            self._line(line, "dim")

    def live(self) -> Live:
        """What is redrawn in place; the last state stays."""
        return Live(console=self._err, refresh_per_second=4)

    def _line(self, message: str, style: str) -> None:
        text = Text(clip(one_line(as_options(message)), LONGEST_MESSAGE), style=style)
        self._err.print(text, soft_wrap=True, highlight=False)

    def _show_warning(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        """Replacement for `warnings.showwarning`."""
        self.warn(str(message))
