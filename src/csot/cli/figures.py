"""`csot figures`: the figures of the paper, and of your own runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from csot.cli.options import Quiet
from csot.cli.terminal import Terminal

if TYPE_CHECKING:
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
            help="Folders of csot train, compare or clean; without any, digits are used.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder.")] = Path(
        "figures"
    ),
    truth: Annotated[
        Path | None,
        typer.Option(help="CSV with the columns id and true_label, where a run has none."),
    ] = None,
    epoch: Annotated[
        int | None, typer.Option(help="Epoch whose snapshot is drawn; else the last.")
    ] = None,
    theme: Annotated[str, typer.Option(help="light, dark or both.")] = "both",
    quick: Annotated[
        bool, typer.Option("--quick", help="timing: only the sizes that take seconds.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Draw figures as PNG and SVG, with the numbers behind them as CSV.

    What takes long is kept in DIR/kept: the same command goes on where it stopped.
    """
    with Terminal(quiet) as terminal:
        from csot.figures.catalogue import FIGURES, Request, find_figure

        if name == "list":
            show_list(terminal)
            return
        chosen = list(FIGURES) if name == "all" else [name]
        for one in chosen:
            find_figure(one)
        themes = read_themes(theme)
        with terminal.stages() as on_step:
            for number, one in enumerate(chosen):
                on_step(one, number, len(chosen))
                entry = find_figure(one)
                request = Request(
                    runs=tuple(runs or ()),
                    truth=truth,
                    epoch=epoch,
                    kept=out / KEPT,
                    quick=quick,
                    on_step=on_step,
                )
                drawing = entry.make(request)
                drawing.save(out, themes=themes)
                terminal.say(describe(drawing, out))


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
        "snapshot": "a training run, or digits",
        "training": "training runs",
        "cleaning": "runs with true labels",
    }
    table = Table(box=None, pad_edge=False)
    for column in ("figure", "what it shows", "drawn from"):
        table.add_column(column, no_wrap=column == "figure")
    for name, entry in FIGURES.items():
        table.add_row(name, entry.about, words[entry.needs])
    terminal.say(table)
