"""The curriculum of CSOT: budget, stages, and how many labels are trusted and replaced."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from csot.figures.drawing import Drawing, Tables
from csot.figures.records import training_records
from csot.figures.style import COLUMN, Theme, new_figure, plain, whole_numbers
from csot.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STAGES = {0: "warm-up", 1: "stage 1", 2: "stage 2"}
SHARES = {"selected": "selected", "clean": "trusted", "corrected": "replaced"}


def stages(runs: Sequence[str | Path | Run]) -> Drawing:
    """Of the first run that has a budget: shares of the rows by epoch, stages as shades."""
    for record in training_records(runs):
        history = record.history
        if "budget" in history and history["budget"].notna().any():
            break
    else:
        raise ValueError("none of these runs has a budget: give a run of the method csot")
    # At a budget m the plan selects floor(m N) rows of each problem.
    rows = (history["selected"] / history["budget"]).max()
    table = pd.DataFrame({"epoch": history["epoch"], "stage": history["stage"].astype(int)})
    table["budget"] = 100 * history["budget"]
    for name in SHARES:
        table[name] = 100 * history[name] / rows
    table.insert(0, "run", record.title)
    return Drawing("stages", {"stages": table}, _paint)


def _paint(tables: Tables, theme: Theme) -> Figure:
    table = tables["stages"]
    figure = new_figure(COLUMN, 2.6)
    axis = figure.subplots()
    for stage in sorted(set(table["stage"])):
        mine = table[table["stage"] == stage]["epoch"]
        first, last = mine.min() - 0.5, mine.max() + 0.5
        axis.axvspan(first, last, color=theme.faint, alpha=(0.1, 0.35)[stage % 2], lw=0)
        name = STAGES.get(stage, f"stage {stage}")
        axis.text((first + last) / 2, 104, name, ha="center", fontsize=7)
    for number, (name, text) in enumerate(SHARES.items()):
        (line,) = axis.plot(table["epoch"], table[name], color=theme.colour(number), label=text)
        if name == "selected":
            # It is what the budget allows, whose line lies on top of it.
            line.set(linewidth=3.0, alpha=0.5)
    axis.plot(table["epoch"], table["budget"], color=theme.text, ls=":", label="budget m")
    axis.set_xlim(table["epoch"].min() - 0.5, table["epoch"].max() + 0.5)
    axis.set_ylim(0, 112)
    axis.set_yticks(range(0, 101, 25))
    axis.set_xlabel("epoch")
    axis.set_ylabel("% of the training rows")
    plain(axis)
    whole_numbers(axis)
    figure.legend(loc="outside lower center", ncols=4, columnspacing=1.0, handlelength=1.5)
    return figure
