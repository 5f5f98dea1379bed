"""`csot audit`: rows to verify by hand, and what they say once verified."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from csot.cli.options import AsJson, Quiet

if TYPE_CHECKING:
    from csot.audit import Audit, AuditResult
    from csot.cli.terminal import Terminal
    from csot.runs import Run

MORE = (100, 200, 500)
SHARES = {
    "noise_rate": "given labels that are wrong",
    "issue_precision": "flagged labels that are wrong",
    "correction_precision": "changed labels that become right",
    "right_before": "labels right as given",
    "right_after": "labels right after correction",
}
"""Shares of an `AuditResult`, in words."""


def audit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    rows: Annotated[
        int, typer.Option(min=1, help="Number of rows to verify; 50 to 200 are usual.")
    ] = 100,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="CSV to fill in: column verified_label."),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The filled-in CSV: estimate the noise rate from it."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Random seed; an audit that was started keeps its own.")
    ] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Choose rows to verify, sampled where they matter most, and report what they show.

    Verified rows give the noise rate and the precision of RUN with intervals,
    and make the next csot clean better.

    csot review RUN --audit does the same in the browser.

    Example: csot audit run --rows 100 --out audit.csv

    Example: csot audit run --results audit.csv
    """
    from csot.audit.sheet import open_audit
    from csot.cli.terminal import Terminal
    from csot.runs import Run

    with Terminal(quiet, as_json) as terminal:
        found = Run.open(run)
        if results is not None:
            if out is not None:
                raise ValueError(
                    "--out writes the rows and --results reads them: give one of the two"
                )
            started = open_audit(found)
            if started is None:
                raise ValueError(
                    f"{found.path} has no audit of its findings: start one by csot audit "
                    f"{shlex.quote(str(found.path))} --out FILE"
                )
            _tell_results(found, started, results, terminal)
            return
        if out is not None and out.exists() and not force:
            raise ValueError(
                f"{out} exists, and labels may be filled in there: choose another file, or use "
                "--force to replace it"
            )
        proposed = open_audit(found, rows, seed)
        assert proposed is not None
        _tell_plan(found, proposed, out, terminal)


def _tell_plan(run: Run, audit: Audit, out: Path | None, terminal: Terminal) -> None:
    import numpy as np

    from csot.audit.design import GROUPS
    from csot.audit.sheet import write_sheet
    from csot.runs.source import clean_again

    n_rows = len(audit)
    plan = audit.plan
    counts = np.bincount(plan.stratum, minlength=len(plan.strata))
    table = Table("what the run did", "label score", "labels", "verify", box=None, pad_edge=False)
    for stratum, count in zip(plan.strata, counts.tolist(), strict=True):
        score = f"{stratum.low:.2f} to {stratum.high:.2f}"
        table.add_row(GROUPS[stratum.group], score, f"{stratum.size:,}", f"{count:,}")
    terminal.say(table)
    terminal.say()
    terminal.say(
        Text(
            f"{n_rows:,} verified rows will give the noise rate to about "
            f"±{100 * audit.margin:.0f} percentage points."
        )
    )
    folder = shlex.quote(str(run.path))
    facts = {"n_rows": n_rows, "margin": audit.margin}
    if out is None:
        terminal.result(facts)
        terminal.say(Text(f"In the browser: csot review {folder} --audit {n_rows}"))
        terminal.say(Text(f"By hand: csot audit {folder} --rows {n_rows} --out audit.csv"))
        return
    write_sheet(out, run, audit)
    terminal.result({**facts, "sheet": str(out)})
    names = [str(name) for name in run.read_summary()["class_names"]]
    listed = ", ".join(names[:12]) + (f" ... ({len(names)} classes)" if len(names) > 12 else "")
    sheet = shlex.quote(str(out))
    terminal.say(Text(f"Fill in verified_label in {out}; leave it empty if unsure."))
    terminal.say(Text(f"Classes: {listed}"))
    terminal.say(Text(f"Then: csot audit {folder} --results {sheet}"))
    terminal.say(Text(f"And: {clean_again(run, out)}"))


def _tell_results(run: Run, audit: Audit, path: Path, terminal: Terminal) -> None:
    from csot.audit.sheet import read_sheet
    from csot.runs.source import clean_again

    labels, others = read_sheet(path, run, audit)
    if others:
        terminal.warn(f"{path}: {others:,} ids are not in the audit and were not counted")
    result = audit.estimate(labels)
    if not result.judged:
        raise ValueError(f"{path}: verified_label is empty everywhere: fill in some (--results)")
    terminal.say(Text(f"{result.judged:,} of {result.planned:,} rows verified"))
    if not result.is_complete:
        terminal.warn("some strata have no verified row yet, so the intervals are very wide")
    terminal.say(_table(result))
    terminal.say()
    for n_rows in MORE:
        if n_rows > result.judged and n_rows <= int(audit.population.open.sum()):
            margin = 100 * audit.margin_after(n_rows, labels)
            terminal.say(Text(f"With {n_rows:,} rows: noise rate to about ±{margin:.0f} points"))
    terminal.say(Text(f"Next: {clean_again(run, path)}"))
    found = {name: getattr(result, name) for name in SHARES}
    terminal.result(
        {
            "n_verified": result.judged,
            "n_rows": result.planned,
            **{name: None if one is None else asdict(one) for name, one in found.items()},
        }
    )


def _table(result: AuditResult) -> Table:
    table = Table("share", "estimate", "95 % interval", box=None, pad_edge=False)
    for name, words in SHARES.items():
        estimate = getattr(result, name)
        if estimate is not None:
            interval = f"{estimate.low:.1%} to {estimate.high:.1%}"
            table.add_row(words, f"{estimate.value:.1%}", interval)
    return table
