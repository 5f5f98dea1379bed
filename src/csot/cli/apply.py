"""`csot apply`: write a copy of the data set with corrected labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from csot.cli.options import AllowOutside, AsJson, Quiet


def apply(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of csot clean or csot train.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="NEW",
            help="New folder or file, of the kind of the data; by default its name with -fixed.",
        ),
    ] = None,
    min_confidence: Annotated[
        float,
        typer.Option(min=0, max=1, help="Apply only corrections with at least this confidence."),
    ] = 0.0,
    link: Annotated[
        bool, typer.Option("--link", help="Link to images instead of copying them.")
    ] = False,
    allow_outside: AllowOutside = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write the data of RUN again, with what you decided and what RUN corrected.

    Class folders, table or arrays, as they came; the input is never changed.

    A list of the changes is written beside NEW.

    Example: csot apply run --out photos-fixed --min-confidence 0.9
    """
    from csot.clean.apply import GUESS, NEW, REVIEWED, SOURCE, apply_corrections
    from csot.cli.terminal import Terminal

    with Terminal(quiet, as_json) as terminal:
        done = apply_corrections(
            run,
            default_target(run) if out is None else out,
            min_confidence=min_confidence,
            link=link,
            allow_outside=allow_outside,
        )
        by_people, guesses = (int((done.changes[SOURCE] == who).sum()) for who in (REVIEWED, GUESS))
        discarded = int(done.changes[NEW].isna().sum())
        terminal.say(
            f"{len(done.changes):,} of {done.n_rows:,} labels changed: {by_people:,} by reviewers, "
            f"{len(done.changes) - by_people - guesses:,} corrected, {guesses:,} uncertain (the "
            "better guess)"
        )
        if discarded:
            terminal.say(f"{discarded:,} of them discarded: without a label")
        if guesses:
            terminal.say("--min-confidence 0.8 leaves out labels that are less sure")
        terminal.say(f"Data in {done.path}; changes in {done.changes_path}")
        terminal.result(
            {
                "data": str(done.path),
                "changes": str(done.changes_path),
                "n_rows": done.n_rows,
                "n_changed": len(done.changes),
                "n_reviewed": by_people,
                "n_uncertain": guesses,
                "n_discarded": discarded,
            }
        )


def default_target(run: Path) -> Path:
    """`reviews-fixed.csv` for the run of `reviews.csv.gz`, `photos-fixed` for that of `photos/`."""
    from csot.cli.options import FIXED, default_out
    from csot.data.readers.table_file import table_suffix
    from csot.runs import Run

    source = Run.open(run).read_summary().get("source")
    path = source.get("path") if isinstance(source, dict) else None
    if not isinstance(path, str):
        return Path(FIXED)  # `apply_corrections` says what the run lacks
    place = default_out(path, FIXED)
    suffix = "" if Path(path).is_dir() else table_suffix(Path(path)) or Path(path).suffix
    return place.with_name(place.name + {".txt": ".csv"}.get(suffix, suffix))
