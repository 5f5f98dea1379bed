"""How test accuracy depends on one setting: kappa, epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from csot.figures.drawing import Drawing, Tables
from csot.figures.records import training_records
from csot.figures.style import COLUMN, DASHES, Theme, new_figure, plain
from csot.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {"coherence": "kappa", "epsilon": "epsilon"}
LABELS = {
    "coherence": "weight of the coherence κ",
    "epsilon": "weight of the entropy ε",
}

NARROWEST = 5.0
"""Least range of the accuracies that are drawn, in points."""


def sensitivity(runs: Sequence[str | Path | Run], setting: str = "coherence") -> Drawing:
    """Last test accuracy over the values of a setting; a line for each noise, seeds as a range.

    Parameters
    ----------
    runs : sequence of path or Run
        Training runs that differ in the setting, as those of `csot compare --vary`. Its value is
        read from the configuration of each. Of runs that differ in other settings as well, those
        are taken that have the most values of this one and agree in all others.
    setting : str
        "coherence" (kappa), "epsilon", or another setting of the method that is a number.
    """
    rows = []
    for record in training_records(runs):
        value, accuracy = record.setting(setting), record.summary.get("test_accuracy_last")
        if isinstance(value, int | float) and not isinstance(value, bool) and accuracy is not None:
            rows.append(
                {
                    "noise": record.noise,
                    setting: float(value),
                    "accuracy": 100 * accuracy,
                    "others": record.other_settings(setting),
                }
            )
    cells = _comparable(pd.DataFrame(rows, columns=["noise", setting, "accuracy", "others"]))
    if cells[setting].nunique() < 2:
        raise ValueError(
            f"these runs hold {cells[setting].nunique()} values of {setting}: give runs with "
            f"several, such as those of csot train --set {setting}=..."
        )
    grouped = cells.groupby(["noise", setting], sort=False)["accuracy"]
    table = pd.DataFrame(
        {
            "runs": grouped.count(),
            "mean": grouped.mean(),
            "low": grouped.min(),
            "high": grouped.max(),
        }
    ).reset_index()
    table = table.sort_values(["noise", setting], kind="stable", ignore_index=True)
    return Drawing(f"sensitivity-{NAMES.get(setting, setting)}", {"accuracy": table}, _paint)


def _comparable(cells: pd.DataFrame) -> pd.DataFrame:
    """Keep, for each noise, the runs that differ only in the setting (the second column)."""
    setting = cells.columns[1]
    kept = []
    for _, mine in cells.groupby("noise", sort=False):
        values = mine.groupby("others", sort=False)[setting].nunique()
        kept.append(mine[mine["others"] == values.idxmax()])
    return pd.concat(kept, ignore_index=True) if kept else cells


def _paint(tables: Tables, theme: Theme) -> Figure:
    table = tables["accuracy"]
    setting = table.columns[1]
    figure = new_figure(COLUMN, 2.4)
    axis = figure.subplots()
    for number, (noise, mine) in enumerate(table.groupby("noise", sort=False)):
        # Lists: old versions of matplotlib take a column or an array of one number for a number.
        below, above = (mine["mean"] - mine["low"]).tolist(), (mine["high"] - mine["mean"]).tolist()
        axis.errorbar(
            mine[setting].to_numpy(),
            mine["mean"].to_numpy(),
            yerr=[below, above],
            color=theme.colour(number),
            ls=DASHES[number % len(DASHES)],
            marker="o",
            capsize=2,
            label=str(noise),
        )
    positive = table[setting][table[setting] > 0]
    if float(positive.max()) / float(positive.min()) > 8:
        if (table[setting] == 0).any():
            axis.set_xscale("symlog", linthresh=float(positive.min()))
        else:
            axis.set_xscale("log")
    values = sorted(set(table[setting]))
    axis.set_xticks(values, [f"{value:g}" for value in values])
    axis.minorticks_off()
    axis.set_xlabel(LABELS.get(str(setting), str(setting)))
    axis.set_ylabel("test accuracy, last epoch (%)")
    # Single test rows must not look like an effect.
    low, high = axis.get_ylim()
    spare = max(0.0, NARROWEST - (high - low)) / 2
    axis.set_ylim(low - spare, high + spare)
    plain(axis)
    noises = table["noise"].unique()
    if len(noises) == 1:
        axis.set_title(f"noise {noises[0]}")
    else:
        figure.legend(title="noise", loc="outside lower center", ncols=3)
    return figure
