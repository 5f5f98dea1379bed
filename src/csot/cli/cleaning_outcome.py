"""What a cleaning run found, in a few lines on the terminal."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.table import Table
from rich.text import Text

from csot.cli.terminal import Terminal, program
from csot.runs import Run
from csot.runs.findings import CORRECTED, GIVEN, IS_ISSUE, STATUS
from csot.runs.noise import NoiseEstimate
from csot.runs.source import clean_command

CONFUSIONS = 5
FACTS = (
    *("n_rows", "n_classes", "n_issues", "n_corrected", "n_uncertain", "n_unlabelled"),
    "n_verified",
    *("n_annotators", "n_votes", "n_vote_issues", "noise_rate", "noise_rate_interval"),
    *("informative", "duplicates", "judged_with"),
)
ANNOTATORS = 3
"""Annotators at either end that are named."""


def show_outcome(run: Run, terminal: Terminal) -> None:
    """How many labels are wrong, where the results are, and what comes next."""
    summary, findings = run.read_summary(), run.read_findings()
    annotators = run.read_annotators()
    if annotators is None:
        _show_labels(findings, summary, terminal)
    else:
        _show_votes(findings, summary, annotators, terminal)
    _show_next(run, terminal)


def outcome_facts(run: Run) -> dict[str, Any]:
    """The same for programs: counts, noise rate, and where everything is."""
    summary = run.read_summary()
    settings, skipped = summary.get("settings"), summary.get("skipped")
    files = {path.name: str(path) for path in sorted(run.path.iterdir()) if path.is_file()}
    return {
        "run": str(run.path),
        **{name: summary.get(name) for name in FACTS if name in summary},
        "n_skipped": len(skipped) if isinstance(skipped, list) else 0,
        "uses": settings.get("uses") if isinstance(settings, dict) else None,
        "files": files,
    }


def _show_labels(findings: pd.DataFrame, summary: dict[str, object], terminal: Terminal) -> None:
    n = len(findings)
    issues = findings[findings[IS_ISSUE]]
    replaced = issues[issues[GIVEN] != issues[CORRECTED]]
    rows: list[tuple[str, int, int | None]] = [
        ("rows", n, n),
        ("labels that look wrong", len(issues), n),
        ("  replaced", len(replaced), n),
        ("  kept, but worth a look", len(issues) - len(replaced), n),
        ("uncertain", int((findings[STATUS] == "uncertain").sum()), n),
    ]
    unlabelled = int(findings[GIVEN].isna().sum())
    skipped = summary.get("skipped")
    if verified := _count(summary, "n_verified"):
        rows.append(("verified", verified, n))
    if unlabelled:
        rows.append(("without a label", unlabelled, n))
    if isinstance(skipped, list) and skipped:
        rows.append(("skipped", len(skipped), None))
    _show_counts(rows, terminal)
    noise = NoiseEstimate.of_summary(summary)
    if summary.get("informative") is False:
        terminal.warn("the features do not predict the labels beyond chance: no label was changed")
    elif noise is not None:
        terminal.say(noise.words())
        terminal.say()
    duplicates = summary.get("duplicates")
    if isinstance(duplicates, dict) and duplicates.get("rows"):
        terminal.say(
            f"{duplicates['rows']:,} rows have a near-duplicate; "
            f"{duplicates['pairs_with_different_labels']:,} of {duplicates['pairs']:,} such pairs "
            "carry different labels (duplicates.csv)"
        )
        terminal.say()
    pairs = Counter(zip(replaced[GIVEN].map(str), replaced[CORRECTED].map(str), strict=True))
    if pairs:
        confusions = Table("given", "suggested", "rows", box=None, pad_edge=False)
        for (given, right), number in pairs.most_common(CONFUSIONS):
            confusions.add_row(Text(given), Text(right), f"{number:,}")
        terminal.say(confusions)
        terminal.say()


def _show_votes(
    findings: pd.DataFrame,
    summary: dict[str, object],
    annotators: pd.DataFrame,
    terminal: Terminal,
) -> None:
    """How many votes look wrong, and who votes best and worst."""
    n, n_votes = len(findings), _count(summary, "n_votes")
    rows = [
        ("samples", n, n),
        ("votes", n_votes, None),
        ("annotators", len(annotators), None),
        ("votes that look wrong", _count(summary, "n_vote_issues"), n_votes),
        ("majority votes that look wrong", int(findings[IS_ISSUE].sum()), n),
        ("uncertain", int((findings[STATUS] == "uncertain").sum()), n),
    ]
    _show_counts(rows, terminal)
    terminal.say(_annotator_table(annotators))
    terminal.say()


def _count(summary: dict[str, object], key: str) -> int:
    value = summary.get(key)
    return value if isinstance(value, int) else 0


def _show_counts(rows: Sequence[tuple[str, int, int | None]], terminal: Terminal) -> None:
    """Name, number, and its share of a whole."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(justify="right", style="dim")
    for name, number, whole in rows:
        table.add_row(name, f"{number:,}", f"{number / whole:.1%}" if whole else "")
    terminal.say(table)
    terminal.say()


def _annotator_table(annotators: pd.DataFrame) -> Table:
    """The best and the worst, or all of a few."""
    rows = annotators[annotators["n_votes"].astype(int) > 0]
    table = Table("annotator", "quality", "95 %", "votes", "agrees", box=None, pad_edge=False)
    hidden = len(rows) - 2 * ANNOTATORS
    for place, (_, row) in enumerate(rows.iterrows()):
        if hidden > 0 and ANNOTATORS <= place < ANNOTATORS + hidden:
            if place == ANNOTATORS:
                table.add_row(Text(f"... {hidden} more", style="dim"))
            continue
        table.add_row(
            Text(str(row["annotator"])),
            f"{float(row['quality']):.1%}",
            f"{float(row['quality_low']):.0%} to {float(row['quality_high']):.0%}",
            f"{int(row['n_votes']):,}",
            f"{float(row['agreement_with_consensus']):.1%}",
        )
    return table


def _show_next(run: Run, terminal: Terminal) -> None:
    """Where the results are, and the next commands."""
    out: Path = run.path
    terminal.say(f"Results in {out}; look at {out / 'report.html'}")
    terminal.say(f"Next: {shlex.join([*program(), 'review', str(out)])}")
    summary = run.read_summary()
    source = summary.get("source")
    is_file = isinstance(source, dict) and "path" in source
    if is_file and summary.get("n_corrected") and run.read_annotators() is None:
        terminal.say(f"Or apply all corrections: {shlex.join([*program(), 'apply', str(out)])}")
    again = [*program(), *clean_command(run)[1:], "--verified", str(out / "verified.csv")]
    terminal.say(f"Then, with what you decided: {shlex.join(again)}")
