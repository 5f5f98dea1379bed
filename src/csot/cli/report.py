"""`csot report`: write the report of a run again, from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from csot.cli.options import AllowOutside, AsJson, Quiet


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that csot clean wrote.")],
    allow_outside: AllowOutside = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write RUN/report.html again, from what RUN holds.

    Example: csot report run
    """
    from csot.cli.terminal import Terminal
    from csot.report import write_report
    from csot.runs import Run

    with Terminal(quiet, as_json) as terminal:
        found = Run.open(run)
        write_report(found, allow_outside=allow_outside)
        if found.has_images:
            terminal.say(f"Pictures are from {found.image_root}")
        terminal.say(f"Report in {found.report_path}")
        terminal.result({"report": str(found.report_path)})
