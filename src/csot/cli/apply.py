"""`csot apply`: the data set again, with its labels corrected."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from csot.cli.options import AllowOutside, Quiet


def apply(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that csot clean wrote.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="NEW", help="New folder or file, in the form of the data."
        ),
    ],
    min_confidence: Annotated[
        float,
        typer.Option(min=0, max=1, help="Leave out corrections of RUN that are less sure."),
    ] = 0.0,
    link: Annotated[
        bool, typer.Option("--link", help="Link to images instead of copying them.")
    ] = False,
    allow_outside: AllowOutside = False,
    quiet: Quiet = False,
) -> None:
    """Write the data of RUN again, with what you decided and what RUN corrected.

    Class folders, table or arrays, as they came; the input is never changed. A list of the changes
    is written beside NEW.

    Example: csot apply run --out photos-fixed --min-confidence 0.9
    """
    from csot.clean.apply import REVIEWED, SOURCE, apply_corrections
    from csot.cli.terminal import Terminal

    with Terminal(quiet) as terminal:
        done = apply_corrections(
            run, out, min_confidence=min_confidence, link=link, allow_outside=allow_outside
        )
        by_people = int((done.changes[SOURCE] == REVIEWED).sum())
        terminal.say(
            f"{len(done.changes):,} of {done.n_rows:,} labels changed, {by_people:,} of them by "
            "reviewers"
        )
        terminal.say(f"Data in {done.path}; changes in {done.changes_path}")
