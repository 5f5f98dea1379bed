"""The command line: parse, call, print. Heavy imports are deferred to the commands."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from csot import __version__
from csot.cli import compare, lists, predict, train
from csot.cli.options import (
    TABLE,
    AllowOutside,
    ExcelSafe,
    IdColumn,
    ImageColumn,
    ImageRoot,
    LabelColumn,
    Quiet,
)

app = typer.Typer(
    name="csot",
    help="Find wrong labels, fix them, and train models that survive them.",
    no_args_is_help=True,
    add_completion=False,
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


class Duplicates(str, Enum):
    group = "group"
    ignore = "ignore"


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
    label: LabelColumn = None,
    text: Annotated[
        str | None, typer.Option(help="Column of the texts.", rich_help_panel=TABLE)
    ] = None,
    image: ImageColumn = None,
    id_column: IdColumn = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Column of groups, such as patients: no row is judged by models that saw its "
            "group.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Feature columns, comma-separated; else all numeric ones.", rich_help_panel=TABLE
        ),
    ] = None,
    annotator: Annotated[
        str | None,
        typer.Option(
            help="Column of the annotators: a row is then one vote, --id names the sample.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    root: ImageRoot = None,
    allow_outside: AllowOutside = False,
    excel_safe: ExcelSafe = False,
    embedder: Annotated[
        str | None,
        typer.Option(
            help="efficientnet-lite0 or efficientnet-lite2; hf:NAME or hf:FOLDER, a model of "
            "transformers; for texts also a sentence-transformers name or folder; or "
            "package.module:callable, from a list of paths or texts to (N, D)."
        ),
    ] = None,
    verified: Annotated[
        Path | None,
        typer.Option(
            help="CSV with the columns id and label: decisions that are final; or a sheet of "
            "csot audit, filled in."
        ),
    ] = None,
    votes: Annotated[
        Path | None,
        typer.Option(
            help="CSV with the columns id, annotator and label: more opinions, beside the labels "
            "of DATA; a review writes one."
        ),
    ] = None,
    class_prior: Annotated[
        str | None,
        typer.Option(help="True shares of the classes: uniform, or cat=0.2,dog=0.8."),
    ] = None,
    duplicates: Annotated[
        Duplicates,
        typer.Option(help="Near-duplicates: keep them out of each other's training, or not."),
    ] = Duplicates.group,
    judge_with: Annotated[
        Path | None,
        typer.Option(
            "--with",
            metavar="RUN",
            help="Judge DATA with what another run of csot clean learned; nothing is fitted.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The result depends on the data and on it.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the results of other data in RUN.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Say which labels of DATA are wrong, what they should be, and how sure that is.

    DATA is never changed. RUN gets findings.csv, corrected.csv, report.html and more.
    """
    from csot.cli.clean import CleanOptions, run_clean
    from csot.cli.judge import run_judge
    from csot.cli.terminal import Terminal
    from csot.data import Columns

    chosen = None if features is None else [name.strip() for name in features.split(",")]
    options = CleanOptions(
        data=data,
        out=out,
        columns=Columns(
            label=label,
            text=text,
            image=image,
            id=id_column,
            group=group,
            features=chosen,
            annotator=annotator,
        ),
        root=root,
        embedder=embedder,
        verified=verified,
        votes=votes,
        class_prior=class_prior,
        duplicates=duplicates.value,
        seed=seed,
        force=force,
        allow_outside=allow_outside,
        excel_safe=excel_safe,
        judge_with=judge_with,
    )
    with Terminal(quiet) as terminal:
        (run_clean if judge_with is None else run_judge)(options, terminal)


app.command()(train.train)
app.command()(compare.compare)
app.command()(lists.ablations)
app.command()(predict.predict)
app.add_typer(lists.presets, name="presets")
app.command()(lists.methods)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that csot clean wrote.")],
    allow_outside: AllowOutside = False,
) -> None:
    """Write RUN/report.html again, from what RUN holds."""
    from csot.cli.report import run_report
    from csot.cli.terminal import Terminal

    with Terminal() as terminal:
        run_report(run, terminal, allow_outside)


@app.command()
def review(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    reviewer: Annotated[
        str, typer.Option(metavar="NAME", help="Your name; decisions are kept under it.")
    ] = "reviewer",
    port: Annotated[
        int | None, typer.Option(help="Port; else a free one.", min=0, max=65535)
    ] = None,
    audit: Annotated[
        int | None,
        typer.Option(metavar="ROWS", min=1, help="Open with an audit of so many rows."),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address to open.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Let --host be reachable from other machines.")
    ] = False,
    same_data: Annotated[
        bool, typer.Option("--same-data", help="The data moved, but is what was decided on.")
    ] = False,
    allow_outside: AllowOutside = False,
) -> None:
    """Decide on the suggestions of RUN in the browser, on this machine; no network is used.

    Decisions are kept in RUN, and come back as verified.csv.
    """
    from csot.cli.review import ReviewOptions, run_review
    from csot.cli.terminal import Terminal

    options = ReviewOptions(
        run,
        reviewer,
        port,
        host,
        allow_remote,
        same_data,
        not no_browser,
        audit=audit,
        allow_outside=allow_outside,
    )
    with Terminal() as terminal:
        run_review(options, terminal)


@app.command("audit")
def audit_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    rows: Annotated[
        int, typer.Option(min=1, help="How many rows to verify; 50 to 200 are usual.")
    ] = 100,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="CSV to fill in: column verified_label."),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="That CSV, filled in: print what it says of all labels."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random choice; a started audit keeps its.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
) -> None:
    """Choose rows to verify, at random where it matters most, and say what they tell.

    Verified rows give the noise rate and the precision of RUN with intervals, and make the next
    csot clean better. csot review RUN --audit does the same in the browser.
    """
    from csot.cli.audit import AuditOptions, run_audit
    from csot.cli.terminal import Terminal

    with Terminal() as terminal:
        run_audit(AuditOptions(run, rows, out, results, seed, force), terminal)
