"""`csot clean`: which labels are wrong, what they should be, and how certain that is."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from csot.cli.options import (
    TABLE,
    AllowOutside,
    AnnotatorColumn,
    AsJson,
    ExcelSafe,
    FeatureColumns,
    IdColumn,
    ImageColumn,
    ImageRoot,
    LabelColumn,
    Quiet,
    TextColumn,
    VerifiedLabels,
    complete_embedder,
    split_names,
)


class DuplicatePolicy(str, Enum):
    group = "group"
    ignore = "ignore"


def clean(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A folder of images with one sub-folder per class or a metadata.csv; a .csv, "
            ".jsonl or .parquet table; an .npz file, or a folder of .npy files, with features and "
            "labels.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="RUN", help="Folder for the results; by default DATA-run."
        ),
    ] = None,
    label: LabelColumn = None,
    text: TextColumn = None,
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
    features: FeatureColumns = None,
    annotator: AnnotatorColumn = None,
    root: ImageRoot = None,
    allow_outside: AllowOutside = False,
    excel_safe: ExcelSafe = False,
    merge_variants: Annotated[
        bool,
        typer.Option(
            "--merge-variants", help="Treat labels that differ only by case or spaces as one."
        ),
    ] = False,
    embedder: Annotated[
        str | None,
        typer.Option(
            help="efficientnet-lite0 or efficientnet-lite2; hf:NAME or hf:FOLDER, a model of "
            "transformers; for texts also a sentence-transformers name or folder; or "
            "package.module:callable, from a list of paths or texts to (N, D).",
            autocompletion=complete_embedder,
        ),
    ] = None,
    verified: VerifiedLabels = None,
    votes: Annotated[
        Path | None,
        typer.Option(
            help="CSV with the columns id, annotator and label: votes in addition to the labels of "
            "DATA, written by csot review or exported from Label Studio."
        ),
    ] = None,
    class_prior: Annotated[
        str | None,
        typer.Option(help="True shares of the classes: uniform, or cat=0.2,dog=0.8."),
    ] = None,
    duplicates: Annotated[
        DuplicatePolicy,
        typer.Option(
            help="Keep near-duplicates in one fold (group), or do not search for them (ignore)."
        ),
    ] = DuplicatePolicy.group,
    judge_with: Annotated[
        Path | None,
        typer.Option(
            "--with",
            metavar="RUN",
            help="Judge DATA with the model of another run of csot clean; nothing is fitted.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Random seed; the result depends only on it and on the data.")
    ] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the results of other data in RUN.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find which labels of DATA are wrong, what they should be, and how certain that is.

    DATA is never changed. RUN gets findings.csv, corrected.csv, report.html and more.

    Example: csot clean photos/

    Example: csot clean reviews.csv --text review --label stars --out run
    """
    from csot.clean import clean_dataset
    from csot.cli.cleaning_outcome import outcome_facts, show_outcome
    from csot.cli.options import RUN, default_out
    from csot.cli.terminal import Terminal, as_options

    with Terminal(quiet, as_json) as terminal:
        prior = _parse_class_prior(class_prior)
        with terminal.stages() as progress:
            run = clean_dataset(
                data,
                default_out(data, RUN) if out is None else out,
                label=label,
                text=text,
                image=image,
                id=id_column,
                group=group,
                features=split_names(features),
                annotator=annotator,
                root=root,
                embedder=embedder,
                verified=verified,
                votes=votes,
                class_prior=prior,
                duplicates=duplicates.value,
                judge_with=judge_with,
                seed=seed,
                force=force,
                allow_outside=allow_outside,
                excel_safe=excel_safe,
                merge_variants=merge_variants,
                progress=progress,
                announce=lambda line: terminal.say(as_options(line)),
            )
        if judge_with is not None:
            terminal.say(f"Judged with {judge_with}; nothing was fitted to {data}")
        show_outcome(run, terminal)
        terminal.result(outcome_facts(run))


def _parse_class_prior(text: str | None) -> str | dict[str, float] | None:
    """`uniform`, or `name=share` for every class, comma-separated."""
    if text is None or text.strip() == "uniform":
        return text and text.strip()
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.rpartition("=")
        try:
            shares[name.strip()] = float(share)
        except ValueError:
            name = ""
        if not name or not 0 < shares[name.strip()] < float("inf"):
            raise ValueError(
                f"--class-prior {text}: {part.strip()!r} is not name=share with a positive share; "
                "write cat=0.2,dog=0.8, or uniform"
            )
    return shares
