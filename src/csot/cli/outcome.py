"""The result in a few lines on the terminal."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from csot.cli.terminal import Terminal, program
from csot.data import LabelledData
from csot.runs.noise import NoiseEstimate

if TYPE_CHECKING:
    from csot.clean import LabelCleaner

CONFUSIONS = 5


def show_outcome(
    cleaner: LabelCleaner, data: LabelledData, out: Path, again: list[str], terminal: Terminal
) -> None:
    """How many labels are wrong, which are mixed up, where the results are and what comes next."""
    from csot.clean.summary import describe_duplicates

    findings = cleaner.findings_
    n = len(findings)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(justify="right", style="dim")

    def count(name: str, number: int) -> None:
        table.add_row(name, f"{number:,}", f"{number / n:.1%}")

    count("rows", n)
    issues = findings[findings["is_label_issue"]]
    replaced = issues[issues["given_label"] != issues["corrected_label"]]
    count("labels that look wrong", len(issues))
    count("  replaced", len(replaced))
    count("  kept, but worth a look", len(issues) - len(replaced))
    count("uncertain", int((findings["status"] == "uncertain").sum()))
    unlabelled = sum(label is None for label in data.labels)
    if unlabelled:
        count("without a label", unlabelled)
    if data.skipped:
        table.add_row("skipped", f"{len(data.skipped):,}", "")
    terminal.say(table)
    terminal.say()
    noise = NoiseEstimate.of_summary(cleaner.noise_summary())
    if noise is not None and cleaner.informative_:
        terminal.say(noise.words())
        terminal.say()
    if not cleaner.informative_:
        terminal.warn("the features do not predict the labels beyond chance: no label was changed")
    duplicates = describe_duplicates(cleaner.duplicate_groups_, findings["given_label"])
    if duplicates:
        terminal.say(f"{duplicates} (duplicates.csv)")
        terminal.say()
    pairs = Counter(
        (str(given), str(right))
        for given, right in zip(replaced["given_label"], replaced["corrected_label"], strict=True)
    )
    if pairs:
        confusions = Table("given", "suggested", "rows", box=None, pad_edge=False)
        for (given, right), number in pairs.most_common(CONFUSIONS):
            confusions.add_row(Text(given), Text(right), f"{number:,}")
        terminal.say(confusions)
        terminal.say()
    show_next(out, again, terminal)


def show_next(out: Path, again: list[str], terminal: Terminal) -> None:
    """Where the results are, and the commands to go on with."""
    terminal.say(Text(f"Results in {out}; look at {out / 'report.html'}"))
    terminal.say(Text(f"Next: {shlex.join([*program(), 'review', str(out)])}"))
    back = [*program(), *again[1:], "--verified", str(out / "verified.csv")]
    terminal.say(Text(f"Then, with what you decided: {shlex.join(back)}"))
