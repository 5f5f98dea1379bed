"""A training run on the terminal: a line per epoch, or a live table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table
from rich.text import Text

from csot._core.text import duration
from csot.cli.terminal import Terminal, as_options

if TYPE_CHECKING:
    from csot.training import Progress
    from csot.training.config import RunConfig
    from csot.training.time_estimate import Workload

SHOWN = 12
"""Number of epochs in a live table; all of them are in metrics.csv."""
COLUMNS: dict[str, tuple[str, str]] = {
    "epoch": ("epoch", "{:.0f}"),
    "stage": ("stage", "{:.0f}"),
    "loss": ("loss", "{:.3f}"),
    "learning_rate": ("rate", "{:.4f}"),
    "budget": ("budget", "{:.2f}"),
    "selected": ("selected", "{:,.0f}"),
    "clean": ("clean", "{:,.0f}"),
    "corrected": ("corrected", "{:,.0f}"),
    "holdout_accuracy": ("held out", "{:.1%}"),
    "test_accuracy": ("test", "{:.1%}"),
    "test_top5": ("top 5", "{:.1%}"),
    "seconds": ("seconds", "{:.0f}"),
}


class Epochs:
    """Shows the epochs as they finish: a table that is redrawn in a terminal, else lines."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._epochs = 0
        self._live: Live | None = None
        self._history: list[dict[str, float]] = []
        self._header: list[str] = []
        self._left = ""
        self._has_estimated = False
        self._stages = ExitStack()
        self._advance: Callable[[str, int, int], None] | None = None

    def __enter__(self) -> Epochs:
        return self

    def __exit__(self, *_: object) -> None:
        self._stages.close()
        if self._live is not None:
            self._live.__exit__(None, None, None)

    def progress(self) -> Progress:
        """The callbacks that `csot.train` takes."""
        from csot.training import Progress

        return Progress(
            on_step=self.on_step,
            on_epoch=self.on_epoch,
            on_start=self.on_start,
            on_ready=self.on_ready,
            on_estimate=self.on_estimate,
            on_words=self.on_words,
            on_stage=self.on_stage,
        )

    def on_start(self, config: RunConfig) -> None:
        self._epochs = config.training.epochs
        self._terminal.say(
            f"{config.method} on {config.data}, preset {config.preset or 'none'}, "
            f"noise {config.noise}"
        )
        if config.only_warms_up:
            self._terminal.say(
                f"{config.training.epochs} epochs end within the warm-up of {config.method}, "
                "which itself never begins: train longer, or shorten it with --set warmup=1"
            )

    def on_words(self, words: str) -> None:
        self._terminal.say(as_options(words))

    def on_stage(self, stage: str, done: int, total: int) -> None:
        """What comes before the epochs, such as embedding images."""
        if self._advance is None:
            self._advance = self._stages.enter_context(self._terminal.stages())
        self._advance(stage, done, total)

    def on_ready(self, workload: Workload) -> None:
        self._stages.close()
        self._terminal.say(workload.words())
        if self._terminal.shows_progress:
            self._live = self._terminal.live()
            self._live.__enter__()

    def on_estimate(self, seconds: float) -> None:
        self._left = f", about {duration(seconds)} left"
        if not self._has_estimated:
            self._has_estimated = True
            self._terminal.say(f"it takes about {duration(seconds)} more, by what is done so far")

    def on_step(self, step: int) -> None:
        if self._live is not None and step % 10 == 0:
            running = len(self._history) + 1
            place = f"epoch {running} of {self._epochs}, step {step}{self._left}"
            self._live.update(self._table(place))

    def on_epoch(self, history: list[dict[str, float]]) -> None:
        self._history = history
        if self._live is not None:
            self._live.update(self._table(""))
        else:
            self._say_line(history[-1])

    def _say_line(self, record: dict[str, float]) -> None:
        names = [name for name in COLUMNS if name in record]
        if names != self._header:
            self._header = names
            self._terminal.say("  ".join(COLUMNS[name][0].rjust(9) for name in names))
        cells = (COLUMNS[name][1].format(record[name]).rjust(9) for name in names)
        self._terminal.say("  ".join(cells))

    def _table(self, caption: str) -> Table:
        there = [name for name in COLUMNS if any(name in record for record in self._history)]
        table = Table(box=None, caption=Text(caption), caption_justify="left", pad_edge=False)
        for name in there:
            table.add_column(COLUMNS[name][0], justify="right")
        for record in self._history[-SHOWN:]:
            cells = (COLUMNS[n][1].format(record[n]) if n in record else "" for n in there)
            table.add_row(*cells)
        return table
