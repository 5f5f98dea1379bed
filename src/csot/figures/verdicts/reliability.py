"""Whether confidence means what it says: how often the corrected label is right, by confidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot.figures.drawing import Drawing, Tables
from csot.figures.records import titled_runs
from csot.figures.style import COLUMN, Theme, new_figure, plain
from csot.figures.verdicts.confusion import Truth
from csot.runs import Run
from csot.runs.findings import CONFIDENCE, CORRECTED
from csot.runs.noise import wilson_interval
from csot.runs.truth import TRUE, judged_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 10


def reliability(
    runs: Sequence[str | Path | Run], truth: Truth = None, *, bins: int = BINS
) -> Drawing:
    """Share of corrected labels that are right, in bins of equal width of their confidence.

    Parameters
    ----------
    runs : sequence of path or Run
        Runs of cleaning or training.
    truth : path or mapping, optional
        True labels by id; a training run on added noise knows them.
    bins : int
    """
    if bins < 1:
        raise ValueError(f"`bins` must be at least 1, got {bins}")
    parts = []
    for title, run in titled_runs(runs).items():
        rows = judged_labels(run, truth)
        right = (rows[CORRECTED] == rows[TRUE]).to_numpy()
        parts.append(_binned(title, rows[CONFIDENCE].to_numpy(dtype=np.float64), right, bins))
    return Drawing("reliability", {"bins": pd.concat(parts, ignore_index=True)}, _paint)


def _binned(
    title: str, confidence: npt.NDArray[np.float64], right: npt.NDArray[Any], bins: int
) -> pd.DataFrame:
    """Bins that hold rows: their bounds, count, mean confidence, share right and its interval."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    rows = []
    for number in np.unique(place):
        inside = place == number
        low, high = wilson_interval(int(right[inside].sum()), int(inside.sum()))
        rows.append(
            {
                "run": title,
                "from": number / bins,
                "to": (number + 1) / bins,
                "rows": int(inside.sum()),
                "confidence": float(confidence[inside].mean()),
                "right": float(right[inside].mean()),
                "right_low": low,
                "right_high": high,
            }
        )
    return pd.DataFrame(rows)


def _paint(tables: Tables, theme: Theme) -> Figure:
    table = tables["bins"]
    runs = list(dict.fromkeys(table["run"]))
    figure = new_figure(COLUMN, 3.5)
    top, below = figure.subplots(2, 1, height_ratios=[3, 1], sharex=True)
    top.plot([0, 100], [0, 100], color=theme.text, ls=":", lw=0.8, label="as sure as right")
    for number, run in enumerate(runs):
        mine = table[table["run"] == run]
        colour = theme.colour(number)
        top.errorbar(
            100 * mine["confidence"],
            100 * mine["right"],
            yerr=[
                100 * (mine["right"] - mine["right_low"]),
                100 * (mine["right_high"] - mine["right"]),
            ],
            color=colour, marker="o", capsize=2, lw=1.2,
            label=f"{run}, 95 % interval" if len(runs) > 1 else "measured, 95 % interval",
        )  # fmt: skip
        width = 100 * (mine["to"] - mine["from"]) / len(runs)
        below.bar(
            100 * mine["from"] + number * width, mine["rows"], width=0.9 * width, align="edge",
            color=colour,
        )  # fmt: skip
    below.set_yscale("log")
    below.set_ylim(bottom=0.7)
    below.set_ylabel("rows")
    below.set_xlabel("confidence (%)")
    top.set_ylabel("corrected labels that are right (%)")
    top.set_xlim(-2, 102)
    top.set_ylim(-2, 103)
    figure.legend(*top.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    for axis in (top, below):
        plain(axis)
    return figure
