"""The findings in a few lines, for a terminal."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot.clean.duplicates import count_duplicates
from csot.runs.findings import CORRECTED, GIVEN, IS_ISSUE, STATUS
from csot.runs.noise import NoiseEstimate


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
