"""The paper's three curves over the epochs, for several methods or ablations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from csot.figures.drawing import Drawing, Tables
from csot.figures.records import Record, titles_of, training_records
from csot.figures.style import DASHES, PAGE, Theme, new_figure, plain, whole_numbers
from csot.runs import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEASURES = {
    "clean_accuracy": ("clean accuracy", "% of trusted labels right"),
    "corrected_accuracy": ("corrected accuracy", "% of replaced labels right"),
    "clean_recall": ("clean recall", "% of right labels trusted"),
    "test_accuracy": ("test accuracy", "% of predictions right"),
}
"""Title and unit."""


def curves(
    runs: Sequence[str | Path | Run],
    *,
    measures: Sequence[str] = ("clean_accuracy", "corrected_accuracy", "clean_recall"),
    name: str = "curves",
) -> Drawing:
    """Mean over the seeds, with the range behind it; a row of panels for each noise.

    Parameters
    ----------
    runs : sequence of path or Run
        Folders of `csot train` or `csot compare`. The first three measures are known where the true
        labels are, and for methods that trust some labels and not others.
    measures : sequence of str
        Columns of metrics.csv.
    name : str
        Of the files.
    """
    records = training_records(runs)
    parts = [_joined(records, measure) for measure in measures]
    table = pd.concat(parts, ignore_index=True)
    if table.empty:
        raise ValueError(
            f"no run has measured {' or '.join(measures)}: they need true labels, as of noise that "
            "is added, and a method that selects labels"
        )
    return Drawing(name, {"curves": table}, _paint)


def _joined(records: Sequence[Record], measure: str) -> pd.DataFrame:
    """Title, noise, epoch, measure, mean, low, high (per cent) and the number of seeds."""
    parts = []
    for noise in dict.fromkeys(record.noise for record in records):
        for title in titles_of(records):
            mine = [
                record.history.set_index("epoch")[measure].dropna()
                for record in records
                if (record.title, record.noise) == (title, noise) and measure in record.history
            ]
            mine = [series for series in mine if len(series)]
            if not mine:
                continue
            joined = 100 * pd.concat(mine, axis=1).sort_index()
            parts.append(
                pd.DataFrame(
                    {
                        "method": title,
                        "noise": noise,
                        "measure": measure,
                        "epoch": joined.index,
                        "mean": joined.mean(axis=1).to_numpy(),
                        "low": joined.min(axis=1).to_numpy(),
                        "high": joined.max(axis=1).to_numpy(),
                        "seeds": joined.notna().sum(axis=1).to_numpy(),
                    }
                )
            )
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _paint(tables: Tables, theme: Theme) -> Figure:
    table = tables["curves"]
    noises, measures = (list(dict.fromkeys(table[name])) for name in ("noise", "measure"))
    methods = list(dict.fromkeys(table["method"]))
    figure = new_figure(PAGE, 2.1 * len(noises) + 0.5)
    panels = figure.subplots(len(noises), len(measures), squeeze=False, sharex=True)
    for row, noise in zip(panels, noises, strict=True):
        for panel, measure in zip(row, measures, strict=True):
            mine = table[(table["noise"] == noise) & (table["measure"] == measure)]
            _draw(panel, mine, methods, theme)
            title, unit = MEASURES.get(measure, (measure, "%"))
            panel.set_ylabel(unit)
            panel.set_title(f"{title}, {noise}" if len(noises) > 1 else title)
    for panel in panels[-1]:
        panel.set_xlabel("epoch")
        whole_numbers(panel)
    lines = {line.get_label(): line for panel in panels.flat for line in panel.get_lines()}
    figure.legend(
        [lines[name] for name in methods],
        methods,
        loc="outside lower center",
        ncols=min(6, len(methods)),
    )
    return figure


def _draw(panel: Axes, table: pd.DataFrame, methods: Sequence[str], theme: Theme) -> None:
    for number, method in enumerate(methods):
        mine = table[table["method"] == method]
        if mine.empty:
            continue
        colour = theme.colour(number)
        # Beyond the colours there are dashes.
        dash = DASHES[(number + number // len(theme.series)) % len(DASHES)]
        panel.plot(mine["epoch"], mine["mean"], color=colour, ls=dash, label=method)
        if (mine["seeds"] > 1).any():
            panel.fill_between(mine["epoch"], mine["low"], mine["high"], color=colour, alpha=0.18)
    plain(panel)
