"""`csot report`: the page again, from the records."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from csot.cli.terminal import Terminal


def run_report(folder: Path, terminal: Terminal, allow_outside: bool = False) -> None:
    """Replace `report.html` of a finished run."""
    from csot.report import write_report
    from csot.runs import Run

    run = Run.open(folder)
    write_report(run, allow_outside=allow_outside)
    if run.has_images:
        terminal.say(Text(f"Pictures are from {run.image_root}"))
    terminal.say(Text(f"Report in {run.report_path}"))
