"""`csot train`: read, add noise if asked to, train, write, tell."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from csot._core.errors import require
from csot.cli.epochs import Epochs
from csot.cli.terminal import Terminal, program
from csot.data import Columns

TENSORBOARD = "tensorboard"


@dataclass(frozen=True)
class TrainOptions:
    """What the user asked for."""

    data: str
    out: Path
    preset: str | None
    method: str
    noise: str
    seed: int
    settings: Sequence[str]
    data_dir: Path | None
    test: Path | None
    columns: Columns
    root: Path | None
    download: bool
    machine: dict[str, Any]
    tensorboard: bool
    resume: bool
    force: bool
    allow_outside: bool = False
    excel_safe: bool = False


def run_train(options: TrainOptions, terminal: Terminal) -> None:
    """Leave a finished run in `options.out`."""
    for module in ("yaml", "pydantic", "lightning_fabric", "safetensors"):
        require(module, "train", "csot train")
    from csot.figures import write_history
    from csot.report import write_report
    from csot.runs import Run
    from csot.training.folder import is_first_process
    from csot.training.loop import Progress
    from csot.training.presets import make_config, preset_for
    from csot.training.train import Source, train_configured

    if not is_first_process():
        terminal.silence()
    preset = options.preset or preset_for(options.data)
    config = make_config(
        options.data,
        options.method,
        preset=preset,
        noise=options.noise,
        seed=options.seed,
        overrides=parse_settings(options.settings),
        machine=options.machine,
    )
    described = f"{options.method} on {options.data}"
    terminal.say(f"{described}, preset {preset or 'none'}, noise {options.noise}")
    with Epochs(terminal, config.training.epochs) as epochs:
        writers: list[Callable[[list[dict[str, float]]], None]] = [epochs.on_epoch]
        if options.tensorboard:
            writers.append(tensorboard_writer(options.out))

        def on_epoch(history: list[dict[str, float]]) -> None:
            for writer in writers:
                writer(history)

        done = train_configured(
            config,
            out=options.out,
            source=Source(
                options.data_dir,
                options.test,
                options.columns,
                options.root,
                options.download,
                options.allow_outside,
            ),
            excel_safe=options.excel_safe,
            resume=options.resume,
            force=options.force,
            progress=Progress(epochs.on_step, on_epoch),
        )
    if done.summary:
        write_report(Run.open(options.out), allow_outside=options.allow_outside)
        write_history(options.out)
        show_trained(done.summary, options.out, terminal)


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """`epochs=20` -> {"epochs": 20}; values are YAML."""
    from csot.training.yaml_text import parse_yaml

    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"--set {pair}: write key=value, such as --set epochs=20")
        found[key.strip()] = parse_yaml(value, f"--set {pair}")
    return found


def tensorboard_writer(out: Path) -> Callable[[list[dict[str, float]]], None]:
    """A function that writes the last epoch's numbers for TensorBoard."""
    make = require("torch.utils.tensorboard", "tensorboard", "--tensorboard").SummaryWriter
    # It makes its folder at once, and a folder with files in it is no place for a new run.
    writers: list[Any] = []

    def write(history: list[dict[str, float]]) -> None:
        record = history[-1]
        epoch = int(record["epoch"])
        if not writers:
            # What an interrupted run wrote of this epoch and of later ones does not count.
            writers.append(make(str(out / TENSORBOARD), purge_step=epoch))
        for name, value in record.items():
            writers[0].add_scalar(name, value, epoch)
        writers[0].flush()

    return write


def show_trained(summary: dict[str, Any], out: Path, terminal: Terminal) -> None:
    """The result in a few lines."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")

    def share(name: str, key: str) -> None:
        if summary.get(key) is not None:
            table.add_row(name, f"{summary[key]:.2%}")

    share("labels that were made wrong", "noise_rate_realised")
    share("estimated noise rate", "noise_rate")
    share("test accuracy, last epoch", "test_accuracy_last")
    share(f"at epoch {summary['best_epoch']}, best on held-out labels", "test_accuracy_best")
    table.add_row("labels corrected", f"{summary['n_corrected']:,} of {summary['n_rows']:,}")
    table.add_row("seconds", f"{summary['seconds']:.0f}")
    terminal.say()
    terminal.say(table)
    terminal.say()
    terminal.say(
        f"results are in {out}: report.html, curves.png, findings.csv, metrics.csv, checkpoints/"
    )
    called, run = shlex.join(program()), shlex.quote(str(out))
    terminal.say(f"next: {called} review {run}; {called} predict {run} DATA --out predictions.csv")
