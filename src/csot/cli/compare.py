"""`csot compare`: run what is missing, print a table per noise."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from csot.cli.completion import complete_method
from csot.cli.defaults import COMPARISON, default_out
from csot.cli.options import (
    AllowOutside,
    AsJson,
    Changes,
    DataDir,
    ImageColumn,
    ImageRoot,
    LabelColumn,
    Preset,
    Quiet,
    TestData,
)
from csot.cli.terminal import Terminal
from csot.cli.train import parse_settings, require_training

if TYPE_CHECKING:
    from csot.training.compare import Cell

SCORES = ("test_accuracy_last", "test_accuracy_best", "seconds")


def compare(
    data: Annotated[str, typer.Argument(metavar="DATA", help="As for csot train.")],
    methods: Annotated[
        str,
        typer.Option(
            help="Methods, separated by commas; csot@c is an ablation; all; ablations.",
            autocompletion=complete_method,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="RUN", help="Folder of all runs; else DATA-compare."),
    ] = None,
    noise: Annotated[str, typer.Option(help="Kinds of noise, separated by commas.")] = "none",
    seeds: Annotated[str, typer.Option(help="Seeds, separated by commas.")] = "0",
    preset: Preset = None,
    settings: Changes = None,
    data_dir: DataDir = None,
    test: TestData = None,
    label: LabelColumn = None,
    image: ImageColumn = None,
    root: ImageRoot = None,
    allow_outside: AllowOutside = False,
    jobs: Annotated[
        int, typer.Option(min=1, help="Runs at a time, each on one thread where there are several.")
    ] = 1,
    own_recipes: Annotated[
        bool,
        typer.Option(
            "--own-recipes",
            help="Epochs, optimiser and network of each method's original, not the common ones.",
        ),
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run methods on the same data, noise, network and budget, and put them side by side.

    What is finished in RUN is not run again; what was interrupted goes on.

    Example: csot compare digits --methods cross_entropy,csot --noise sym:0.5 --seeds 0,1,2
    """
    with Terminal(quiet, as_json) as terminal:
        require_training("csot compare")
        from csot import training
        from csot.data import Columns
        from csot.figures.comparison import rows_for
        from csot.training.compare import list_cells

        chosen, noises = split_list(methods, "--methods"), split_list(noise, "--noise")
        numbers = split_numbers(seeds, "--seeds")
        cells = list_cells(chosen, noises, numbers)
        out = default_out(data, COMPARISON) if out is None else out
        facts: list[dict[str, Any]] = []
        with terminal.bar("runs", len(cells)) as advance:

            def on_cell(cell: Cell, summary: dict[str, Any]) -> None:
                advance(1)
                terminal.say(describe_cell(cell, summary))
                facts.append(asdict(cell) | {name: summary.get(name) for name in SCORES})

            found = training.compare(
                data,
                chosen,
                out=out,
                noises=noises,
                seeds=numbers,
                preset=preset,
                settings=parse_settings(settings or []),
                source=training.Source(
                    data_dir=data_dir,
                    test=test,
                    columns=Columns(label=label, image=image),
                    root=root,
                    allow_outside=allow_outside,
                ),
                own_recipes=own_recipes,
                jobs=jobs,
                command=as_typed(
                    data, methods, noise, seeds, out, settings or [], allow_outside, preset
                ),
                on_cell=on_cell,
            )
        for name in found.noises:
            # One table per noise: side by side they would not fit a terminal.
            terminal.say()
            terminal.say(as_table(name, rows_for(found, name)))
        terminal.say()
        terminal.say(f"results are in {out}: compare.html, table.csv, table.tex, cells.csv")
        terminal.result({"run": str(out), "page": str(out / "compare.html"), "cells": facts})


def as_typed(
    data: str,
    methods: str,
    noise: str,
    seeds: str,
    out: Path,
    settings: Sequence[str],
    allow_outside: bool,
    preset: str | None,
) -> str:
    """The command as it would be typed, for compare.html."""
    words = ["csot", "compare", data, "--methods", methods, "--noise", noise]
    words += ["--seeds", seeds, "--out", str(out)]
    words += [word for setting in settings for word in ("--set", setting)]
    words += ["--allow-outside"] if allow_outside else []
    words += [] if preset is None else ["--preset", preset]
    return shlex.join(words)


def as_table(title: str, rows: list[list[str]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("method", "best", "last", "seconds"):
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def describe_cell(cell: Cell, summary: dict[str, Any]) -> str:
    """One line about a finished run."""
    last, best = summary.get("test_accuracy_last"), summary.get("test_accuracy_best")
    scores = "no test set" if last is None else f"last {last:.2%}, best {best:.2%}"
    run = f"{cell.method} {cell.noise} seed {cell.seed}"
    return f"{run}: {scores}, {summary['seconds']:.0f} s"


def split_list(text: str, option: str) -> list[str]:
    """`a,b` -> [a, b]."""
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise ValueError(f"{option} {text!r} names nothing: separate values by commas")
    return found


def split_numbers(text: str, option: str) -> list[int]:
    """`0,1` -> [0, 1]."""
    try:
        return [int(part) for part in split_list(text, option)]
    except ValueError as error:
        raise ValueError(f"{option} {text!r}: whole numbers separated by commas") from error
