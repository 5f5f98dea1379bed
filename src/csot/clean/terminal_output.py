"""What `LabelCleaner` shows in a terminal: progress while it fits, and the findings in short."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from csot.clean.duplicates import count_duplicates
from csot.clean.model import STAGES
from csot.runs.findings import CORRECTED, GIVEN, IS_ISSUE, STATUS
from csot.runs.noise import NoiseEstimate

SHOW_FROM = 5_000
"""Rows from which progress is shown in a terminal by default."""


class StageProgress:
    """Reports the stages of a fit: to a callable, or as a progress line on standard error."""

    def __init__(self, wanted: bool | Callable[[str, int, int], None] | None, n_rows: int) -> None:
        self._report = wanted if callable(wanted) else None
        if wanted is None:
            wanted = n_rows >= SHOW_FROM and sys.stderr.isatty()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=wanted is not True,
        )
        self._task = self._progress.add_task("reading", total=len(STAGES))

    def begin(self, stage: str) -> None:
        done = STAGES.index(stage)
        if self._report is not None:
            self._report(stage, done, len(STAGES))
        self._progress.update(
            self._task, completed=done, description=f"{stage} ({done + 1} of {len(STAGES)})"
        )

    def __enter__(self) -> StageProgress:
        if not self._progress.disable:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        if not self._progress.disable:  # rich prints an empty line where nothing was shown
            self._progress.stop()
        return False


def describe(
    findings: pd.DataFrame,
    noise: NoiseEstimate | None,
    noise_matrix: pd.DataFrame,
    classes: npt.NDArray[Any],
) -> str:
    """Headline, verdicts, and the commonest confusions."""
    n = len(findings)
    issues = findings[findings[IS_ISSUE]]
    replaced = issues[issues[GIVEN] != issues[CORRECTED]]
    counts = findings[STATUS].value_counts()
    lines = [
        f"{len(issues):,} of {n:,} labels look wrong: {len(replaced):,} replaced, "
        f"{len(issues) - len(replaced):,} kept but worth a look",
        *([] if noise is None else [noise.words()]),
        "  "
        + ", ".join(
            f"{int(counts.get(status, 0)):,} {status}"
            for status in ("clean", "corrected", "uncertain")
        ),
    ]
    if len(replaced):
        pairs = Counter(zip(replaced[GIVEN], replaced[CORRECTED], strict=True))
        lines.append("commonest corrections (given -> corrected):")
        lines += [
            f"  {given} -> {corrected}: {count:,}"
            for (given, corrected), count in pairs.most_common(5)
        ]
    kept = pd.Series(np.diag(noise_matrix.to_numpy()), index=classes)
    worst = kept.sort_values().head(3)
    lines.append("labels of these true classes are right least often:")
    lines += [f"  {name}: {share:.1%}" for name, share in worst.items()]
    return "\n".join(lines)


def describe_duplicates(groups: npt.NDArray[np.int64], labels: pd.Series[Any]) -> str:
    """How many rows have a near-duplicate, and how many pairs differ in label; may be empty."""
    found = count_duplicates(groups, labels)
    if not found.rows:
        return ""
    return (
        f"{found.rows:,} rows have a near-duplicate; {found.pairs_with_different_labels:,} of "
        f"{found.pairs:,} such pairs carry different labels"
    )
