"""The effect of verified rows: runs with more and more of them, against the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from csot.figures.drawing import Drawing, Tables
from csot.figures.records import titled_runs
from csot.figures.style import PAGE, Theme, new_figure, plain
from csot.figures.verdicts.confusion import Truth
from csot.runs import Run
from csot.runs.findings import CORRECTED, GIVEN, IS_ISSUE, NOTE, VERIFIED
from csot.runs.noise import NoiseEstimate
from csot.runs.truth import TRUE, judged_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURES = {
    "right_after": "labels right after correction",
    "precision": "precision of the flags",
    "recall": "recall of the flags",
}


def verified(runs: Sequence[str | Path | Run], truth: Truth = None) -> Drawing:
    """Noise rate with its interval, and the quality of the verdicts on rows that are not verified.

    Parameters
    ----------
    runs : sequence of path or Run
        Runs of `csot clean` on the same data, with different numbers of verified rows.
    truth : path or mapping, optional
        True labels by id.
    """
    rows = [_measured(run, truth) for run in titled_runs(runs).values()]
    table = pd.DataFrame(rows).sort_values("verified", ignore_index=True)
    if table["verified"].nunique() < 2:
        raise ValueError(
            "these runs have the same number of verified rows: give runs of csot clean with and "
            "without --verified"
        )
    return Drawing("verified", {"runs": table}, _paint)


def _measured(run: Run, truth: Truth) -> dict[str, Any]:
    estimate = NoiseEstimate.of_summary(run.read_summary())
    every = judged_labels(run, truth)
    every = every[every[GIVEN] != ""]
    decided = every[NOTE] == VERIFIED
    rows = every[~decided]
    wrong, flagged = rows[GIVEN] != rows[TRUE], rows[IS_ISSUE]
    low, high = (np.nan, np.nan)
    if estimate is not None and estimate.interval is not None:
        low, high = estimate.interval
    return {
        "verified": int(decided.sum()),
        "noise_rate": np.nan if estimate is None else estimate.rate,
        "noise_rate_low": low,
        "noise_rate_high": high,
        "noise_rate_true": float((every[GIVEN] != every[TRUE]).mean()),
        "right_before": float((~wrong).mean()),
        "right_after": float((rows[CORRECTED] == rows[TRUE]).mean()),
        "precision": float(wrong[flagged].mean()) if flagged.any() else np.nan,
        "recall": float(flagged[wrong].mean()) if wrong.any() else np.nan,
    }


def _paint(tables: Tables, theme: Theme) -> Figure:
    table = tables["runs"]
    figure = new_figure(PAGE, 2.6)
    left, right = figure.subplots(1, 2)
    rate = 100 * table["noise_rate"]
    spread = [
        (rate - 100 * table["noise_rate_low"]).clip(lower=0),
        (100 * table["noise_rate_high"] - rate).clip(lower=0),
    ]
    left.errorbar(
        table["verified"], rate, yerr=spread, color=theme.colour(0), marker="o", capsize=2,
        label="estimated, with its interval",
    )  # fmt: skip
    left.plot(
        table["verified"], 100 * table["noise_rate_true"], color=theme.text, ls=":", label="true"
    )
    left.set_ylabel("noise rate (%)")
    left.set_ylim(bottom=0)
    right.plot(
        table["verified"], 100 * table["right_before"], color=theme.text, ls=":",
        label="labels right before",
    )  # fmt: skip
    for number, (name, text) in enumerate(MEASURES.items()):
        right.plot(
            table["verified"], 100 * table[name], color=theme.colour(number), marker="os^"[number],
            label=text,
        )  # fmt: skip
    right.set_ylabel("% (of rows that are not verified)")
    for axis in (left, right):
        axis.set_xlabel("verified rows")
        plain(axis)
        axis.legend()
    return figure
