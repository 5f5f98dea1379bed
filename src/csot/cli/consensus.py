"""`csot clean` on the votes of several annotators: the files, and the last lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.table import Table
from rich.text import Text

from csot.cli.outcome import show_next
from csot.cli.results import write_tables
from csot.cli.terminal import Terminal
from csot.data import LabelledData
from csot.runs import FINDINGS_COLUMNS
from csot.runs.summary import versions

if TYPE_CHECKING:
    from csot.annotators import Consensus
    from csot.runs import Run

SHOWN = 3
"""Annotators at either end that the terminal names."""


@dataclass(frozen=True)
class Agreed:
    """The data, the consensus, and how it came about."""

    data: LabelledData
    consensus: Consensus
    source: Mapping[str, str]
    settings: Mapping[str, Any]
    timings: Mapping[str, float]


def write_consensus(run: Run, agreed: Agreed, allow_outside: bool = False) -> None:
    """Every file of a run, annotators.csv and votes.csv among them; the report last."""
    from csot.report import write_report

    found, data = agreed.consensus, agreed.data
    assert found.cleaner is not None
    findings = found.findings[list(FINDINGS_COLUMNS)]
    # Fitted to the consensus: single labels are not to be judged by it.
    run.cleaner_path.unlink(missing_ok=True)
    run.write_annotators(
        found.annotators.reset_index(), found.votes.rename(columns={"sample": "id"})
    )
    write_tables(run, _by_majority(data, findings), found.cleaner, findings, found.posterior)
    run.write_summary(_summary(agreed, findings))
    write_report(run, allow_outside=allow_outside)


def _by_majority(data: LabelledData, findings: pd.DataFrame) -> LabelledData:
    """The same samples, whose given label is that of the majority."""
    table = data.table
    if table is not None and data.label_column is not None and data.votes is not None:
        # Skipped samples keep theirs.
        table = table.copy()
        given = findings["given_label"].astype(object)
        table.loc[findings.index, data.label_column] = given
    return replace(data, labels=findings["given_label"].to_numpy(dtype=object), table=table)


def _summary(agreed: Agreed, findings: pd.DataFrame) -> dict[str, Any]:
    found, data = agreed.consensus, agreed.data
    return {
        "n_rows": len(findings),
        "n_classes": len(found.classes),
        "class_names": list(found.classes),
        "n_issues": int(findings["is_label_issue"].sum()),
        "n_corrected": int((findings["status"] == "corrected").sum()),
        "n_uncertain": int((findings["status"] == "uncertain").sum()),
        "n_unlabelled": int((found.findings["n_votes"] == 0).sum()),
        "n_annotators": len(found.annotators),
        "n_votes": len(found.votes),
        "n_vote_issues": int(found.votes["is_vote_issue"].sum()),
        "noise_rate": found.noise_rate,
        "noise_matrix": np.asarray(found.noise_matrix),
        "class_prior": np.asarray(found.class_prior),
        "settings": agreed.settings,
        "versions": versions(),
        "timings": agreed.timings,
        "source": agreed.source,
        "skipped": [{"id": skipped.id, "reason": skipped.reason} for skipped in data.skipped],
    }


def show_consensus(found: Consensus, out: Path, again: list[str], terminal: Terminal) -> None:
    """How many votes look wrong, who votes best and worst, and what comes next."""
    findings, votes = found.findings, found.votes
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(justify="right", style="dim")
    wrong, changed = int(votes["is_vote_issue"].sum()), int(findings["is_label_issue"].sum())
    uncertain = int((findings["status"] == "uncertain").sum())
    n = len(findings)
    for name, number, whole in (
        ("samples", n, n),
        ("votes", len(votes), None),
        ("annotators", len(found.annotators), None),
        ("votes that look wrong", wrong, len(votes)),
        ("majority votes that look wrong", changed, n),
        ("uncertain", uncertain, n),
    ):
        table.add_row(name, f"{number:,}", "" if whole is None else f"{number / whole:.1%}")
    terminal.say(table)
    terminal.say()
    terminal.say(_annotators(found.annotators))
    terminal.say()
    show_next(out, again, terminal)


def _annotators(annotators: pd.DataFrame) -> Table:
    """The best and the worst, or all of a few."""
    rows = annotators[annotators["n_votes"] > 0]
    table = Table("annotator", "quality", "95 %", "votes", "agrees", box=None, pad_edge=False)
    hidden = len(rows) - 2 * SHOWN
    for place, (name, row) in enumerate(rows.iterrows()):
        if hidden > 0 and SHOWN <= place < SHOWN + hidden:
            if place == SHOWN:
                table.add_row(Text(f"... {hidden} more", style="dim"))
            continue
        table.add_row(
            Text(str(name)),
            f"{row['quality']:.1%}",
            f"{row['quality_low']:.0%} to {row['quality_high']:.0%}",
            f"{row['n_votes']:,.0f}",
            f"{row['agreement_with_consensus']:.1%}",
        )
    return table
