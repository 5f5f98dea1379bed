"""Runs over their epochs: several side by side, one as a picture, and the curriculum of CSOT."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from csot._core.files import atomic_write
from csot.figures.drawing import Drawing, Tables
from csot.figures.records import Record, read_history, titles_of, training_records
from csot.figures.style import COLUMN, DASHES, PAGE, Theme, new_figure, plain, whole_numbers
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
        Name of the files.
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


ACCURACIES = {
    "test_accuracy": "test",
    "test_top5": "test, top 5",
    "holdout_accuracy": "held out (noisy labels)",
    "clean_accuracy": "of trusted labels",
    "corrected_accuracy": "of replaced labels",
    "clean_recall": "right labels trusted",
}
COUNTS = {"clean": "trusted", "corrected": "replaced", "selected": "selected"}


def write_history(run: Path) -> Path:
    """curves.png, from metrics.csv."""
    figure = draw_history(read_history(run))
    with atomic_write(run / "curves.png") as file:
        figure.savefig(file, format="png", dpi=110)
    return run / "curves.png"


def draw_history(history: pd.DataFrame) -> Figure:
    """Panels side by side; panels without a measurement are left out."""
    from matplotlib.figure import Figure

    losses = [str(name) for name in history.columns if str(name).startswith("loss")]
    panels = [
        ("Losses", {name: name.removeprefix("loss_") for name in losses}, 1.0),
        ("Accuracy, per cent", ACCURACIES | further_tests(history), 100.0),
        ("Labels", COUNTS, 1.0),
    ]
    shown = [panel for panel in panels if any(name in history for name in panel[1])]
    # Fixed margins: a computed layout would take half of the time of a short run.
    width = 4.8 * len(shown)
    figure = Figure(figsize=(width, 3.4))
    axes = figure.subplots(
        1,
        len(shown),
        squeeze=False,
        gridspec_kw={
            "left": 0.7 / width,
            "right": 1 - 0.1 / width,
            "bottom": 0.14,
            "top": 0.91,
            "wspace": 0.16,
        },
    )[0]
    for axis, (title, columns, scale) in zip(axes, shown, strict=True):
        _draw_columns(axis, history, columns, scale)
        axis.set_title(title)
    return figure


def further_tests(history: pd.DataFrame) -> dict[str, str]:
    """Columns of the test sets after the first, and what to call them."""
    prefixes = {"test_accuracy_": "", "test_top5_": ", top 5"}
    return {
        str(name): str(name).removeprefix(prefix) + words
        for prefix, words in prefixes.items()
        for name in history.columns
        if str(name).startswith(prefix)
    }


def _draw_columns(axis: Axes, history: pd.DataFrame, columns: dict[str, str], scale: float) -> None:
    from matplotlib.ticker import MaxNLocator

    for name, text in columns.items():
        if name in history:
            known = history[["epoch", name]].dropna()
            axis.plot(known["epoch"], scale * known[name], label=text, lw=1.5)
    axis.set_xlabel("epoch")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize="small")


STAGES = {0: "warm-up", 1: "stage 1", 2: "stage 2"}
SHARES = {"selected": "selected", "clean": "trusted", "corrected": "replaced"}


def stages(runs: Sequence[str | Path | Run]) -> Drawing:
    """Shares of the rows by epoch, of the first run that has a budget; stages are shaded."""
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
    return Drawing("stages", {"stages": table}, _paint_stages)


def _paint_stages(tables: Tables, theme: Theme) -> Figure:
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
