"""The paper's timing table, measured here, beside the published seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from csot.figures.drawing import Drawing, Tables
from csot.figures.solver.timing_cells import ESI, OURS, PAPER, REPEATS, VDA, Cell, measure
from csot.figures.style import PAGE, Theme, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = {
    VDA: "VDA: vanilla Dykstra, 10 x 100",
    ESI: "ESI: scaling, 10 x 100",
    OURS: "csot: to convergence",
}


def timing(
    sizes: Sequence[tuple[int, int]] = tuple(PAPER),
    *,
    kept: str | Path | None = None,
    repeats: int = REPEATS,
    on_cell: Callable[[Cell], None] = lambda cell: None,
) -> Drawing:
    """Seconds of VDA, ESI and `csot.solve` on the same problems, and the paper's on an A100.

    All three are this package's code in float32 and differ in the inner method: Dykstra on full
    matrices (Algorithm S4) and scaling (Algorithm 1) with the paper's 10 x 100 fixed iterations,
    and the default, which stops when it has converged.

    Parameters
    ----------
    sizes : sequence of (N, C)
        By default the nine sizes of the paper; the largest take many minutes.
    kept : path, optional
        JSON file that measurements are kept in: what it holds is not measured again.
    repeats : int
        Of which the fastest counts; one is enough where a problem takes ten seconds.
    on_cell : callable
        Called with each measurement.
    """
    place = None if kept is None else Path(kept)
    cells = measure(sizes, kept=place, repeats=repeats, on_cell=on_cell)
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
                "threads": mine[OURS].threads,
                "machine": mine[OURS].machine,
                "torch": mine[OURS].torch,
            }
        )
    return pd.DataFrame(rows)


def _latex(table: pd.DataFrame) -> str:
    """A booktabs table; the machines are named, since their seconds cannot be compared."""
    machine = f"{table['machine'].iloc[0]}, {table['threads'].iloc[0]} threads".replace("_", r"\_")
    lines = [
        r"\begin{tabular}{lccccc}",
        r"\toprule",
        rf" & \multicolumn{{3}}{{c}}{{measured ({machine})}} & "
        r"\multicolumn{2}{c}{published (A100)} \\",
        r"$(N, C)$ & VDA & ESI & csot & VDA & ESI \\",
        r"\midrule",
    ]
    for _, row in table.iterrows():
        ours = [f"{row[f'{method}_seconds']:.3g}" for method in HERE]
        theirs = [
            "--" if pd.isna(row[name]) else f"{row[name]:.2f}"
            for name in ("VDA_seconds_paper_A100", "ESI_seconds_paper_A100")
        ]
        lines.append(rf"({row['N']}, {row['C']}) & {' & '.join([*ours, *theirs])} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _paint(tables: Tables, theme: Theme) -> Figure:
    table = tables["seconds"]
    figure = new_figure(PAGE, 0.32 * len(table) + 1.2)
    axis = figure.subplots()
    places = np.arange(len(table))[::-1]
    for number, (method, title) in enumerate(HERE.items()):
        seconds = table[f"{method}_seconds"]
        axis.plot(
            seconds, places, ls="", marker="osD"[number], color=theme.colour(number), label=title
        )
        if method == OURS:
            for at, value in zip(places, seconds, strict=True):
                axis.annotate(
                    f"{value:.2g}", (value, at), xytext=(-6, -2.5), textcoords="offset points",
                    ha="right", fontsize=6,
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
    axis.set_xlabel("seconds per problem (logarithmic)")
    axis.set_ylabel("(samples, classes)")
    threads = int(table["threads"].iloc[0])
    words = "thread" if threads == 1 else "threads"
    axis.set_title(f"measured on {table['machine'].iloc[0]}, {threads} {words}", loc="left")
    plain(axis)
    figure.legend(loc="outside lower center", ncols=3)
    return figure
