"""The files of a comparison: CSV, LaTeX, PNG and one self-contained HTML page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from csot._core.atomic import atomic_write, write_text
from csot.figures.comparison import Comparison, latex
from csot.figures.comparison_page import comparison_page
from csot.figures.measured import CELLS
from csot.figures.sweep import draw_sweep
from csot.runs.tables import write_csv

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = {
    "test_accuracy": "Test accuracy",
    "clean_accuracy": "Clean accuracy: right labels among those trusted",
    "corrected_accuracy": "Corrected accuracy: right labels among those replaced",
    "clean_recall": "Clean recall: share of the right labels that are trusted",
}


def draw_curves(
    histories: Mapping[tuple[str, str, int], pd.DataFrame], column: str, title: str
) -> Figure | None:
    """Mean over the seeds with the range behind it; None where no run measured it."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    shown = {key: frame for key, frame in histories.items() if column in frame}
    if not shown:
        return None
    noises = list(dict.fromkeys(noise for _, noise, _ in shown))
    # A method has the same colour in every figure, shown there or not.
    methods = list(dict.fromkeys(method for method, _, _ in histories))
    colours = colormaps["tab10" if len(methods) <= 10 else "tab20"]
    figure = Figure(figsize=(4.2 * len(noises) + 2.2, 3.6), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(noises), sharey=True))
    for panel, noise in zip(panels, noises, strict=True):
        for number, method in enumerate(methods):
            runs = [f for (m, n, _), f in shown.items() if (m, n) == (method, noise)]
            if not runs:
                continue
            joined = pd.concat([run.set_index("epoch")[column] for run in runs], axis=1)
            joined = 100 * joined.dropna(how="all")
            colour = colours(number)
            panel.plot(joined.index, joined.mean(axis=1), color=colour, label=method, lw=1.6)
            if len(runs) > 1:
                panel.fill_between(
                    joined.index, joined.min(axis=1), joined.max(axis=1), color=colour, alpha=0.15
                )
        panel.set_title(noise)
        panel.set_xlabel("epoch")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("per cent")
    figure.suptitle(title)
    lines = {line.get_label(): line for panel in panels for line in panel.get_lines()}
    figure.legend(list(lines.values()), list(lines), loc="outside right upper", frameon=False)
    return figure


def cells_with_runs(comparison: Comparison, out: Path) -> pd.DataFrame:
    """The cells, and the folder of each from `out`."""
    keys = zip(*(comparison.cells[name] for name in ("method", "noise", "seed")), strict=True)
    folders = [comparison.places.get(key) for key in keys]
    runs = ["" if f is None else Path(os.path.relpath(f, out)).as_posix() for f in folders]
    return comparison.cells.assign(run=runs)


def write_comparison(comparison: Comparison, out: Path, command: str) -> list[Path]:
    """cells.csv, table.csv, table.tex, one PNG for each curve, compare.html; of a sweep more."""
    table = comparison.table()
    write_csv(out / CELLS, cells_with_runs(comparison, out))
    write_csv(out / "table.csv", table)
    write_text(out / "table.tex", latex(table, comparison))
    for name, title in CURVES.items():
        figure = draw_curves(comparison.histories, name, title)
        if figure is None:
            continue
        with atomic_write(out / f"{name}.png") as file:
            figure.savefig(file, format="png", dpi=110)
    sweep = comparison.sweep()
    if len(sweep):
        write_csv(out / "sweep.csv", sweep)
        with atomic_write(out / "sweep.png") as file:
            draw_sweep(sweep).savefig(file, format="png", dpi=150)
    write_text(out / "compare.html", comparison_page(comparison, out, command, CURVES))
    names = [CELLS, "table.csv", "table.tex", "compare.html"]
    return [out / name for name in names]
