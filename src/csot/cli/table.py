"""`csot table`: the paper's tables, from runs and with the paper's own numbers beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from csot.cli.compare import split_list
from csot.cli.options import AsJson, Quiet
from csot.cli.predict import check_free
from csot.cli.terminal import Terminal


def table(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="main, webvision, clothing1m, ablations or hours."),
    ],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN]...", help="Folders of csot compare or csot train."),
    ] = None,
    with_paper: Annotated[
        bool, typer.Option("--with-paper", help="Add rows with the numbers printed in the paper.")
    ] = False,
    epochs: Annotated[
        str,
        typer.Option(
            help="Accuracies of a run, separated by commas: peak (highest of all epochs, which "
            "papers call best), last, best (chosen by held-out labels)."
        ),
    ] = "peak,last",
    form: Annotated[str, typer.Option("--format", help="text, csv, latex or html.")] = "text",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="File to write the table to.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Print a table of the paper from finished runs, each figure with its scale and hardware.

    Without RUN, --with-paper prints the paper's figures alone.

    Example: csot table main digits-compare --with-paper --format latex
    """
    with Terminal(quiet, as_json) as terminal:
        from csot._core.errors import nearest
        from csot._core.files import write_text
        from csot.figures.comparison.measured import read_measured
        from csot.figures.comparison.results_table import results_table
        from csot.figures.comparison.table_model import FORMATS

        if form not in FORMATS:
            known = list(FORMATS)
            raise ValueError(
                f"--format {form!r} is not one of {', '.join(known)}{nearest(form, known)}"
            )
        if not runs and not with_paper:
            raise ValueError("give folders of runs, or --with-paper for the paper's figures alone")
        if out is not None:
            check_free(out, force, f"{name}.{form}")
        made = results_table(
            name,
            read_measured(runs or []),
            with_paper=with_paper,
            epochs=split_list(epochs, "--epochs"),
        )
        text = FORMATS[form](made)
        if out is not None:
            write_text(out, text)
            terminal.say(f"table in {out}")
        elif not (quiet or as_json):
            typer.echo(text, nl=False)  # not by rich: lines must not be wrapped
        terminal.result(made.tidy().to_dict("records"))
