"""Precision and recall of a run's ranking of the labels, against the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot.figures.drawing import Drawing, Tables
from csot.figures.records import titled_runs
from csot.figures.style import DASHES, PAGE, Theme, new_figure, plain
from csot.figures.verdicts.confusion import Truth
from csot.runs import Run
from csot.runs.findings import GIVEN, IS_ISSUE, SCORE
from csot.runs.truth import TRUE, judged_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def precision_recall(runs: Sequence[str | Path | Run], truth: Truth = None) -> Drawing:
    """Of the labels whose score is at most a threshold: how many are wrong, and of all wrong ones.

    Parameters
    ----------
    runs : sequence of path or Run
        Runs of cleaning or training.
    truth : path or mapping, optional
        True labels by id; a training run on added noise knows them.
    """
    parts, verdicts = [], []
    for title, run in titled_runs(runs).items():
        rows = judged_labels(run, truth)
        rows = rows[rows[GIVEN] != ""]
        wrong = (rows[GIVEN] != rows[TRUE]).to_numpy()
        if not wrong.any():
            raise ValueError(f"no given label of {run.path} is wrong: there is nothing to find")
        flagged = rows[IS_ISSUE].to_numpy(dtype=bool)
        parts.append(_ranked(title, rows[SCORE].to_numpy(dtype=np.float64), wrong))
        found = int((flagged & wrong).sum())
        verdicts.append(
            {
                "run": title,
                "rows": len(rows),
                "wrong": int(wrong.sum()),
                "flagged": int(flagged.sum()),
                "precision": found / max(1, int(flagged.sum())),
                "recall": found / int(wrong.sum()),
                "average_precision": _average_precision(parts[-1]),
            }
        )
    tables = {"ranking": pd.concat(parts, ignore_index=True), "verdicts": pd.DataFrame(verdicts)}
    return Drawing("precision-recall", tables, _paint)


def _ranked(
    title: str, scores: npt.NDArray[np.float64], wrong: npt.NDArray[np.bool_]
) -> pd.DataFrame:
    """One row per distinct score, the lowest first: labels of equal score are taken together."""
    order = np.argsort(scores, kind="stable")
    scores, hits = scores[order], np.cumsum(wrong[order])
    last = np.append(np.flatnonzero(np.diff(scores) > 0), len(scores) - 1)
    taken, found = last + 1, hits[last]
    return pd.DataFrame(
        {
            "run": title,
            "score": scores[last],
            "taken": taken,
            "precision": found / taken,
            "recall": found / hits[-1],
        }
    )


def _average_precision(ranked: pd.DataFrame) -> float:
    """sum_n (R_n - R_n-1) P_n."""
    steps = np.diff(ranked["recall"].to_numpy(), prepend=0.0)
    return float((steps * ranked["precision"].to_numpy()).sum())


def _paint(tables: Tables, theme: Theme) -> Figure:
    ranking, verdicts = tables["ranking"], tables["verdicts"]
    figure = new_figure(PAGE, 2.7)
    left, right = figure.subplots(1, 2)
    several = len(verdicts) > 1
    for number in range(len(verdicts)):
        verdict, colour = verdicts.iloc[number], theme.colour(number)
        mine = ranking[ranking["run"] == verdict["run"]]
        name = f"{verdict['run']}: " if several else ""
        left.plot(
            100 * mine["recall"],
            100 * mine["precision"],
            color=colour,
            label=f"{name}average precision {verdict['average_precision']:.3f}",
        )
        left.plot(
            100 * verdict["recall"], 100 * verdict["precision"], marker="o", ms=6, mfc="none",
            ls="", color=colour, mew=1.3, label=f"{name}labels flagged by the run",
        )  # fmt: skip
        right.plot(mine["score"], 100 * mine["precision"], color=colour, label=f"{name}precision")
        right.plot(
            mine["score"], 100 * mine["recall"], color=colour, ls=DASHES[1], label=f"{name}recall"
        )
    share = 100 * verdicts["wrong"].iloc[0] / verdicts["rows"].iloc[0]
    left.axhline(share, color=theme.text, ls=":", lw=0.8, label="labels taken at random")
    left.set_xlabel("recall (% of the wrong labels)")
    left.set_ylabel("precision (% of those taken)")
    left.set_xlim(0, 102)
    right.set_xlabel("label_score up to which labels are taken")
    right.set_ylabel("%")
    right.set_xlim(0, 1)
    for axis in (left, right):
        axis.set_ylim(0, 104)
        plain(axis)
        axis.legend()
    return figure
