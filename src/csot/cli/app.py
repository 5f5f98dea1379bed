"""The command line: one file per command parses, calls and prints. Heavy imports are deferred."""

from __future__ import annotations

from typing import Annotated

import typer

from csot import __version__
from csot.cli import lists
from csot.cli.apply import apply
from csot.cli.audit import audit
from csot.cli.clean import clean
from csot.cli.compare import compare
from csot.cli.export import export
from csot.cli.figures import figures
from csot.cli.predict import predict
from csot.cli.report import report
from csot.cli.review import review
from csot.cli.table import table
from csot.cli.train import train

app = typer.Typer(
    name="csot",
    help="Find wrong labels, fix them, and train models that survive them.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"csot {__version__}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print and exit."),
    ] = False,
) -> None:
    """Find wrong labels, fix them, and train models that survive them."""


for _command in (
    clean,
    review,
    apply,
    report,
    audit,
    train,
    predict,
    export,
    compare,
    table,
    figures,
):
    app.command()(_command)
app.command()(lists.ablations)
app.command()(lists.methods)
app.add_typer(lists.presets, name="presets")
