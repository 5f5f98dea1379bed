"""`csot report`: the page again, from the records."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from csot.commands.terminal import Terminal


def run_report(folder: Path, terminal: Terminal) -> None:
    """Replace `report.html` of a finished run."""
    from csot.records import Run
    from csot.report import write_report

    run = Run.open(folder)
    write_report(run)
    terminal.say(Text(f"Report in {run.report_path}"))
