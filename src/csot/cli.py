"""The command line: parse, call, print. What is heavy is imported by the command that needs it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="csot",
    help="Find wrong labels, fix them, and train models that survive them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"csot {version('csot')}")
        except PackageNotFoundError:
            typer.echo("csot (not installed)")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print and exit."),
    ] = False,
) -> None:
    """Find wrong labels, fix them, and train models that survive them."""


TABLE = "Tables"


@app.command()
def clean(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A folder of images with one sub-folder per class; a .csv or .parquet table; an "
            ".npz file, or a folder of .npy files, with features and labels.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="RUN", help="Folder for the results.")
    ],
    label: Annotated[
        str | None, typer.Option(help="Column of the given labels.", rich_help_panel=TABLE)
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Column of the texts.", rich_help_panel=TABLE)
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="Column of the image paths.", rich_help_panel=TABLE)
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="Column of unique ids; else row numbers.", rich_help_panel=TABLE),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Feature columns, comma-separated; else all numeric ones.", rich_help_panel=TABLE
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            help="Folder that image paths start from; else the table's.", rich_help_panel=TABLE
        ),
    ] = None,
    embedder: Annotated[
        str | None,
        typer.Option(
            help="package.module:callable, from a list of paths or texts to (N, D); for texts also "
            "a sentence-transformers model or folder."
        ),
    ] = None,
    verified: Annotated[
        Path | None,
        typer.Option(help="CSV with the columns id and label: decisions that are final."),
    ] = None,
    class_prior: Annotated[
        str | None,
        typer.Option(help="True shares of the classes: uniform, or cat=0.2,dog=0.8."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The result depends on the data and on it.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the results of other data in RUN.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors.")] = False,
) -> None:
    """Say which labels of DATA are wrong, what they should be, and how sure that is.

    DATA is never changed. RUN gets findings.csv, corrected.csv, report.html and more.
    """
    from csot.commands.clean import CleanOptions, run_clean
    from csot.commands.terminal import Terminal
    from csot.data import Columns

    chosen = None if features is None else [name.strip() for name in features.split(",")]
    options = CleanOptions(
        data=data,
        out=out,
        columns=Columns(label=label, text=text, image=image, id=id_column, features=chosen),
        root=root,
        embedder=embedder,
        verified=verified,
        class_prior=class_prior,
        seed=seed,
        force=force,
    )
    with Terminal(quiet) as terminal:
        run_clean(options, terminal)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that csot clean wrote.")],
) -> None:
    """Write RUN/report.html again, from what RUN holds."""
    from csot.commands.report import run_report
    from csot.commands.terminal import Terminal

    with Terminal() as terminal:
        run_report(run, terminal)
