"""`csot figures`: the figures of the paper, and of your own runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from csot.cli.options import AllowOutside, AsJson, Quiet
from csot.cli.terminal import Terminal
from csot.cli.train import require_training

if TYPE_CHECKING:
    from csot.figures.catalogue import DemoGroup, Entry, Request
    from csot.figures.drawing import Drawing
    from csot.figures.style import ThemeName

KEPT = "kept"


def figures(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A figure (csot figures list), all, or list.")
    ],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Folders of csot train, compare or clean; by default digits are used.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Folder to write to.")
    ] = Path("figures"),
    truth: Annotated[
        Path | None,
        typer.Option(help="CSV with the columns id and true_label, for runs that have none."),
    ] = None,
    epoch: Annotated[
        int | None, typer.Option(help="Epoch whose snapshot is drawn; by default the last.")
    ] = None,
    theme: Annotated[str, typer.Option(help="light, dark or both.")] = "both",
    kept: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for long computations; by default kept/ in --out."
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="For timing: measure some of the iterations and extrapolate."),
    ] = False,
    allow_outside: AllowOutside = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Draw figures as PNG and SVG, with the numbers behind them as CSV.

    Long computations are kept: the same command continues where it stopped.

    Example: csot figures list

    Example: csot figures all run --theme dark
    """
    with Terminal(quiet, as_json) as terminal:
        if name == "list":
            show_list(terminal)
            return
        from csot.figures.catalogue import FIGURES, Request, find_figure

        chosen = {
            one: entry
            for one, entry in (FIGURES if name == "all" else {name: find_figure(name)}).items()
            # `all` of some runs is all that depends on them.
            if name != "all" or not runs or entry.needs != "nothing"
        }
        themes = read_themes(theme)
        drawn: dict[str, list[str]] = {}
        with terminal.stages() as on_step:
            given = Request(
                tuple(runs or ()), truth, epoch, kept or out / KEPT, quick, allow_outside, on_step
            )
            demos = {entry.demo for entry in chosen.values() if entry.demo is not None}
            for number, (one, entry) in enumerate(chosen.items()):
                on_step(one, number, len(chosen))
                try:
                    drawing = entry.make(request_for(entry, given, demos))
                except ValueError as error:
                    if name != "all" or not runs:
                        raise
                    # Not every figure can be drawn from every run.
                    terminal.warn(f"{one} is left out: {error}")
                    continue
                drawn[one] = [str(path) for path in drawing.save(out, themes=themes)]
                terminal.say(describe(drawing, out))
        terminal.result(drawn)


def request_for(entry: Entry, given: Request, demos: Collection[DemoGroup]) -> Request:
    """What the user gave, or runs on digits; of ``demos`` all are made that train."""
    if entry.demo is None or given.runs:
        return given
    require_training("csot figures")
    from csot.gallery import demo_runs

    assert given.kept is not None
    made = demo_runs(entry.demo, given.kept, given.on_step, demos)
    return replace(given, runs=made.runs, truth=made.truth)


def read_themes(text: str) -> tuple[ThemeName, ...]:
    """`both` -> light and dark."""
    if text == "both":
        return ("light", "dark")
    if text not in ("light", "dark"):
        raise ValueError(f"--theme must be light, dark or both, got {text!r}")
    return ("light",) if text == "light" else ("dark",)


def describe(drawing: Drawing, out: Path) -> str:
    """Where the files are."""
    tables = [f"{drawing.name}-{part}.csv" for part in drawing.tables]
    names = tables if len(tables) > 1 else [f"{drawing.name}.csv"]
    return f"{out / drawing.name}.png, .svg, {', '.join(names)}"


def show_list(terminal: Terminal) -> None:
    """The figures, and what each of them is drawn from."""
    from csot.figures.catalogue import FIGURES

    words = {
        "nothing": "",
        "snapshot": "a training run",
        "training": "training runs",
        "run": "a run of cleaning or training",
        "truth": "such runs, and true labels",
    }
    table = Table(box=None, pad_edge=False)
    for column in ("figure", "what it shows", "drawn from"):
        table.add_column(column, no_wrap=column == "figure")
    for name, entry in FIGURES.items():
        table.add_row(name, entry.about, words[entry.needs])
    terminal.say(table)
    terminal.result(
        [
            {"name": name, "about": entry.about, "needs": entry.needs}
            for name, entry in FIGURES.items()
        ]
    )
