"""Where the time goes: seconds per epoch with the share of relabelling, and total training time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from csot.figures.drawing import Drawing, Tables
from csot.figures.paper_numbers import paper_hours
from csot.figures.records import titles_of, training_records
from csot.figures.style import DASHES, PAGE, Theme, new_figure, plain, whole_numbers
from csot.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RELABELLING = "relabel_seconds"
UNITS = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


def epoch_time(runs: Sequence[str | Path | Run]) -> Drawing:
    """Seconds of each epoch, and the part of it before the first step.

    That part is the relabelling: predictions for all rows and the decision on labels. Epochs after
    an interruption count from the last checkpoint.
    """
    parts = []
    for record in training_records(runs):
        history = record.history
        # The first epoch of a table is known to have begun at zero only if it is epoch 1.
        seconds = history["seconds"].diff().fillna(history["seconds"].where(history["epoch"] == 1))
        relabelling = history.get(RELABELLING, np.nan)
        parts.append(
            pd.DataFrame(
                {
                    "method": record.title,
                    "noise": record.noise,
                    "seed": record.seed,
                    "epoch": history["epoch"],
                    "seconds": seconds,
                    RELABELLING: relabelling,
                }
            )
        )
    table = pd.concat(parts, ignore_index=True)
    order = titles_of(training_records(runs))
    means = table.groupby("method")[["seconds", RELABELLING]].mean().loc[order].reset_index()
    means["relabel_share"] = means[RELABELLING] / means["seconds"]
    return Drawing("epoch-time", {"epochs": table, "means": means}, _paint_epochs)


def total_time(runs: Sequence[str | Path | Run]) -> Drawing:
    """Total training time by method, beside the hours that the paper reports."""
    records = training_records(runs)
    cells = pd.DataFrame(
        {
            "method": [record.title for record in records],
            "seconds": [float(record.summary.get("seconds") or np.nan) for record in records],
            "epochs": [float(record.summary.get("epochs") or np.nan) for record in records],
        }
    )
    grouped = cells.groupby("method")
    table = pd.DataFrame(
        {
            "runs": grouped["seconds"].count(),
            "seconds": grouped["seconds"].mean(),
            "seconds_low": grouped["seconds"].min(),
            "seconds_high": grouped["seconds"].max(),
            "epochs": grouped["epochs"].mean(),
        }
    ).loc[titles_of(records)]
    printed = paper_hours()
    table["hours_paper_A100"] = [printed.get(name.lower(), np.nan) for name in table.index]
    return Drawing("total-time", {"times": table.reset_index()}, _paint_totals)


def _paint_epochs(tables: Tables, theme: Theme) -> Figure:
    epochs, means = tables["epochs"], tables["means"]
    methods = means["method"].tolist()
    figure = new_figure(PAGE, max(2.2, 0.26 * len(methods) + 1.3))
    left, right = figure.subplots(1, 2)
    for number, method in enumerate(methods):
        mine = epochs[epochs["method"] == method].groupby("epoch")["seconds"].mean().dropna()
        colour, dash = theme.colour(number), DASHES[number % len(DASHES)]
        left.plot(mine.index, mine, color=colour, ls=dash, label=method)
    left.set_xlabel("epoch")
    left.set_ylabel("seconds per epoch")
    left.set_ylim(bottom=0)
    whole_numbers(left)
    places = np.arange(len(methods))[::-1]
    known = means[RELABELLING].fillna(0.0)
    right.barh(places, known, color=theme.colour(1), label="relabelling", height=0.6)
    right.barh(
        places, means["seconds"] - known, left=known, color=theme.colour(0), height=0.6,
        label="training steps",
    )  # fmt: skip
    for at, seconds, share in zip(places, means["seconds"], means["relabel_share"], strict=True):
        note = "" if np.isnan(share) else f" {100 * share:.0f} %"
        right.text(seconds, at, note, va="center", fontsize=7)
    right.set_yticks(places, methods)
    right.set_xlabel("mean seconds per epoch (share of relabelling)")
    right.margins(x=0.15)
    for axis in (left, right):
        plain(axis)
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2)
    return figure


def _paint_totals(tables: Tables, theme: Theme) -> Figure:
    table = tables["times"]
    published = table.dropna(subset=["hours_paper_A100"])
    figure = new_figure(PAGE, 0.26 * len(table) + 1.1)
    panels = figure.subplots(1, 2 if len(published) else 1, squeeze=False)[0]
    largest = float(table["seconds"].max())
    size, unit = next((size, name) for size, name in UNITS if largest >= size or size == 1.0)
    places = np.arange(len(table))[::-1]
    low, high = table["seconds_low"] / size, table["seconds_high"] / size
    middle = table["seconds"] / size
    panels[0].barh(
        places, middle, xerr=[middle - low, high - middle], height=0.6, color=theme.colour(0),
        ecolor=theme.text,
    )  # fmt: skip
    for at, value in zip(places, high, strict=True):
        panels[0].text(value, at, f" {value:.3g}", va="center", fontsize=7)
    panels[0].set_yticks(places, table["method"])
    panels[0].set_xlabel(f"{unit} of training, measured (mean and range)")
    panels[0].margins(x=0.15)
    if len(published):
        chosen = places[published.index.to_numpy()]
        panels[1].barh(chosen, published["hours_paper_A100"], height=0.6, color=theme.colour(6))
        for at, value in zip(chosen, published["hours_paper_A100"], strict=True):
            panels[1].text(value, at, f" {value:.1f}", va="center", fontsize=7)
        panels[1].set_yticks(chosen, published["method"])
        panels[1].set_ylim(panels[0].get_ylim())
        panels[1].set_xlabel("hours on CIFAR-10, A100, as published")
        panels[1].margins(x=0.15)
    for panel in panels:
        plain(panel, grid=False)
    return figure
