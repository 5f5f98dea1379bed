"""The files of a comparison: CSV, LaTeX, PNG and one self-contained HTML page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from csot._core.files import atomic_write, write_text
from csot.figures.comparison.comparison import Comparison, draw_sweep, latex
from csot.figures.comparison.measured import CELLS
from csot.figures.comparison.page import comparison_page
from csot.figures.style import LIGHT, new_figure, plain, whole_numbers
from csot.runs.tables import write_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURED = LIGHT.series[:-1]
"""Colours of the named methods; the last of the series is grey."""
GREY = "#9aa1ab"

CURVES = {
    "test_accuracy": "Test accuracy",
    "clean_accuracy": "Clean accuracy: right labels among those trusted",
    "corrected_accuracy": "Corrected accuracy: right labels among those replaced",
    "clean_recall": "Clean recall: share of the right labels that are trusted",
}


def draw_curves(
    histories: Mapping[tuple[str, str, int], pd.DataFrame], column: str, title: str
) -> Figure | None:
    """Mean over the seeds with the range behind it; None where no run measured it.

    Of many methods CSOT and the best have colours, the others are grey.
    """
    shown = {key: frame for key, frame in histories.items() if column in frame}
    if not shown:
        return None
    noises = list(dict.fromkeys(noise for _, noise, _ in shown))
    colours = method_colours(histories)
    figure = new_figure(3.0 * len(noises) + 1.4, 2.6)
    panels = np.atleast_1d(figure.subplots(1, len(noises), sharey=True))
    for panel, noise in zip(panels, noises, strict=True):
        for method, colour in reversed(colours.items()):  # the best is drawn last, on top
            runs = [f for (m, n, _), f in shown.items() if (m, n) == (method, noise)]
            if runs:
                _draw_method(panel, runs, column, method, colour)
        panel.set_title(noise)
        panel.set_xlabel("epoch")
        whole_numbers(panel)
        plain(panel)
    panels[0].set_ylabel("per cent")
    figure.suptitle(title)
    lines = {line.get_label(): line for panel in panels for line in panel.get_lines()}
    names = [name for name in colours if name in lines and colours[name] != GREY]
    named = {name: lines[name] for name in names}
    others = [name for name in lines if name not in named]
    if others:
        named[f"{len(others)} others"] = lines[others[0]]
    figure.legend(list(named.values()), list(named), loc="outside right upper", frameon=False)
    return figure


def method_colours(histories: Mapping[tuple[str, str, int], pd.DataFrame]) -> dict[str, str]:
    """The colour of each method in every figure; the highest last test accuracy comes first."""
    last: dict[str, list[float]] = {}
    for (method, _, _), frame in histories.items():
        tested = frame["test_accuracy"].dropna().tolist() if "test_accuracy" in frame else []
        last.setdefault(method, []).append(float(tested[-1]) if tested else 0.0)
    ranked = sorted(last, key=lambda method: -sum(last[method]) / len(last[method]))
    if len(ranked) > len(COLOURED):
        chosen = sorted(ranked, key=lambda method: method != "csot")[: len(COLOURED)]
    else:
        chosen = list(last)
    named = dict(zip(chosen, COLOURED, strict=False))
    return {method: named.get(method, GREY) for method in ranked}


def _draw_method(
    panel: Axes, runs: list[pd.DataFrame], column: str, method: str, colour: str
) -> None:
    joined = pd.concat([run.set_index("epoch")[column] for run in runs], axis=1)
    joined = 100 * joined.dropna(how="all")
    is_grey = colour == GREY
    width, order = (0.8, 1.5) if is_grey else (1.6, 2.0)
    panel.plot(
        joined.index, joined.mean(axis=1), color=colour, label=method, lw=width, zorder=order
    )
    if len(runs) > 1 and not is_grey:
        low, high = joined.min(axis=1), joined.max(axis=1)
        panel.fill_between(joined.index, low, high, color=colour, alpha=0.15, lw=0)


def cells_with_runs(comparison: Comparison, out: Path) -> pd.DataFrame:
    """The cells, and the folder of each from `out`."""
    keys = zip(*(comparison.cells[name] for name in ("method", "noise", "seed")), strict=True)
    folders = [comparison.places.get(key) for key in keys]
    runs = ["" if f is None else Path(os.path.relpath(f, out)).as_posix() for f in folders]
    return comparison.cells.assign(run=runs)


def write_comparison(comparison: Comparison, out: Path, command: str) -> list[Path]:
    """cells.csv, table.csv, table.tex, one PNG for each curve, compare.html; of a sweep more."""
    from matplotlib import rc_context

    table = comparison.table()
    write_csv(out / CELLS, cells_with_runs(comparison, out))
    write_csv(out / "table.csv", table)
    write_text(out / "table.tex", latex(table, comparison))
    sweep = comparison.sweep()
    if len(sweep):
        write_csv(out / "sweep.csv", sweep)
    with rc_context(LIGHT.rc()):
        figures = {
            name: draw_curves(comparison.histories, name, title) for name, title in CURVES.items()
        }
        figures["sweep"] = draw_sweep(sweep) if len(sweep) else None
        for name, figure in figures.items():
            if figure is not None:
                with atomic_write(out / f"{name}.png") as file:
                    figure.savefig(file, format="png", dpi=150)
    write_text(out / "compare.html", comparison_page(comparison, out, command, CURVES))
    names = [CELLS, "table.csv", "table.tex", "compare.html"]
    return [out / name for name in names]
