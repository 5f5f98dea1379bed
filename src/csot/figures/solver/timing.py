"""The paper's timing table, measured here, beside the published seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from csot.figures.drawing import Drawing, Tables
from csot.figures.latex import escape, group_heads, notes_below
from csot.figures.solver.timing_cells import (
    ESI,
    FIXED,
    INNER,
    OURS,
    OURS32,
    OUTER,
    PAPER,
    REPEATS,
    VDA,
    Cell,
    measure,
)
from csot.figures.solver.timing_progress import OnStep
from csot.figures.style import PAGE, Theme, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = {
    VDA: "VDA: vanilla Dykstra, 10 x 100",
    ESI: "ESI: scaling, 10 x 100",
    OURS: "csot: to convergence",
    OURS32: "csot in float32",
}


def timing(
    sizes: Sequence[tuple[int, int]] = tuple(PAPER),
    *,
    kept: str | Path | None = None,
    repeats: int = REPEATS,
    quick: bool = False,
    on_cell: Callable[[Cell], None] = lambda cell: None,
    on_step: OnStep = lambda stage, done, total: None,
) -> Drawing:
    """Seconds of VDA, ESI and `csot.solve` on the same problems, and the paper's on an A100.

    VDA and ESI are this package's code from the paper's algorithms, not the authors': Dykstra on
    full matrices (Algorithm S4) and scaling (Algorithm 1), both in the log domain, around the same
    generalised conditional gradient (Algorithm 2), with the paper's 10 x 100 fixed iterations. All
    run in float64, as the published code does, so that only the methods differ. `csot` stops when
    it has converged; it is measured in float32 too, which is what networks give.

    With one thread the seconds are those of the processor, so that other programs on the machine
    do not count; with several they are those of the clock on the wall.

    Parameters
    ----------
    sizes : sequence of (N, C)
        By default the nine sizes of the paper; the largest takes a quarter of an hour and more.
    kept : path, optional
        JSON file that measurements are kept in: what it holds is not measured again.
    repeats : int
        Of which the fastest counts; one is enough where a problem takes ten seconds.
    quick : bool
        Of VDA and ESI measure as many iterations as fit into a second, at least five, and scale
        the time up: iterations cost the same each. The table says how many were measured.
    on_cell : callable
        Called with each measurement.
    on_step : callable
        Called once per second, from another thread, with a name, seconds passed and seconds
        expected in total.
    """
    place = None if kept is None else Path(kept)
    cells = measure(
        sizes, kept=place, repeats=repeats, quick=quick, on_cell=on_cell, on_step=on_step
    )
    table = _table(cells)
    return Drawing("timing", {"seconds": table}, _paint, {"tex": _latex(table)})


def _table(cells: Sequence[Cell]) -> pd.DataFrame:
    rows = []
    for size in dict.fromkeys((cell.rows, cell.classes) for cell in cells):
        mine = {cell.method: cell for cell in cells if (cell.rows, cell.classes) == size}
        paper = PAPER.get(size, (np.nan, np.nan))
        rows.append(
            {
                "N": size[0],
                "C": size[1],
                **{f"{method}_seconds": mine[method].seconds for method in HERE},
                "VDA_per_ESI": mine[VDA].seconds / mine[ESI].seconds,
                "ESI_per_csot": mine[ESI].seconds / mine[OURS].seconds,
                "VDA_seconds_paper_A100": paper[0],
                "ESI_seconds_paper_A100": paper[1],
                **{
                    f"{method}_iterations_measured": mine[method].measured_iterations
                    for method in FIXED
                },
                "clock": mine[OURS].clock,
                "threads": mine[OURS].threads,
                "machine": mine[OURS].machine,
                "torch": mine[OURS].torch,
            }
        )
    return pd.DataFrame(rows)


def _latex(table: pd.DataFrame) -> str:
    """A booktabs table; the machines are named, since their seconds cannot be compared."""
    lines = [
        r"\begin{tabular}{lrrrrrr}",
        r"\toprule",
        *group_heads([("measured", 4), ("published (A100)", 2)], 1),
        r"$(N, C)$ & VDA & ESI & csot & csot, float32 & VDA & ESI \\",
        r"\midrule",
    ]
    for _, row in table.iterrows():
        ours = [_seconds(row, method) for method in HERE]
        theirs = [
            "--" if pd.isna(row[name]) else f"{row[name]:.2f}"
            for name in ("VDA_seconds_paper_A100", "ESI_seconds_paper_A100")
        ]
        lines.append(rf"({row['N']}, {row['C']}) & {' & '.join([*ours, *theirs])} \\")
    notes = [escape(f"Seconds, {_measured_on(table)}; float64 but for the column float32.")]
    if (scaled := _scaled(table)) is not None:
        notes.append(f"$^*$ {escape(scaled)}.")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *notes_below(notes), ""])


def _seconds(row: pd.Series[Any], method: str) -> str:
    """Three digits, but never as a power of ten; a star where the time was scaled up."""
    value = float(row[f"{method}_seconds"])
    text = f"{value:.0f}" if value >= 100 else f"{value:.3g}"
    is_scaled = method in FIXED and row[f"{method}_iterations_measured"] < OUTER * INNER
    return text + (r"\rlap{$^*$}" if is_scaled else "")


def _scaled(table: pd.DataFrame) -> str | None:
    """How many iterations were measured, or None where it is all of them."""
    counts = table[[f"{method}_iterations_measured" for method in FIXED]].to_numpy()
    few = counts[counts < OUTER * INNER]
    if not few.size:
        return None
    span = str(few.min()) if few.min() == few.max() else f"{few.min()} to {few.max()}"
    return f"measured {span} of {OUTER * INNER:,} iterations, time scaled"


def _measured_on(table: pd.DataFrame) -> str:
    threads = int(table["threads"].iloc[0])
    clock = " (processor time)" if table["clock"].iloc[0] == "cpu" else ""
    words = "thread" if threads == 1 else "threads"
    return f"measured on {table['machine'].iloc[0]}, {threads} {words}{clock}"


def _paint(tables: Tables, theme: Theme) -> Figure:
    table = tables["seconds"]
    figure = new_figure(PAGE, 0.32 * len(table) + 1.4)
    axis = figure.subplots()
    places = np.arange(len(table))[::-1]
    for number, (method, title) in enumerate(HERE.items()):
        seconds = table[f"{method}_seconds"]
        is_last = method == OURS32
        axis.plot(
            seconds, places, ls="", marker="osDD"[number], color=theme.colour(min(number, 2)),
            mfc="none" if is_last else None, label=title,
        )  # fmt: skip
        if is_last:
            for at, value in zip(places, seconds, strict=True):
                axis.annotate(
                    f"{value:.2g}", (value, at), xytext=(0, 4.5), textcoords="offset points",
                    ha="center", fontsize=6,
                )  # fmt: skip
    for number, method in enumerate(FIXED):
        few = table[f"{method}_iterations_measured"] < OUTER * INNER
        for at, value in zip(places[few], table[f"{method}_seconds"][few], strict=True):
            axis.annotate(
                "*", (value, at), xytext=(4, -1), textcoords="offset points",
                color=theme.colour(number),
            )  # fmt: skip
    for marker, method in (("o", VDA), ("s", ESI)):
        seconds = table[f"{method}_seconds_paper_A100"]
        axis.plot(
            seconds, places, ls="", marker=marker, ms=5, mfc="none", color=theme.colour(6),
            label=f"{method} as published, A100",
        )  # fmt: skip
    axis.set_yticks(places, [f"({n}, {c})" for n, c in zip(table["N"], table["C"], strict=True)])
    axis.set_xscale("log")
    axis.margins(x=0.08)
    axis.set_ylim(-0.7, len(table) - 0.3)
    scaled = _scaled(table)
    axis.set_xlabel(
        "seconds per problem (logarithmic)" + (f"\n* {scaled}" if scaled is not None else "")
    )
    axis.set_ylabel("(samples, classes)")
    axis.set_title(f"float64, {_measured_on(table)}", loc="left")
    plain(axis)
    figure.legend(loc="outside lower center", ncols=3)
    return figure
