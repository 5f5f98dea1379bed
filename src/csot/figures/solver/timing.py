"""The paper's timing table, measured here, beside the published seconds."""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from csot._core.files import read_json, write_text
from csot.figures.drawing import Drawing, Tables
from csot.figures.paper import paper_solver_seconds
from csot.figures.style import PAGE, Theme, new_figure, plain
from csot.ot.numerics import ConvergenceWarning
from csot.ot.solve import solve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VDA, ESI, OURS = "VDA", "ESI", "csot"
OPTIONS: dict[str, dict[str, Any]] = {
    VDA: {"method": "dykstra", "inner_iterations": 100, "max_outer": 10, "tolerance": 0},
    ESI: {"method": "scaling", "inner_iterations": 100, "max_outer": 10, "tolerance": 0},
    OURS: {},
}
"""Arguments of `csot.solve`: 10 x 100 iterations as in the paper, and our defaults."""
PAPER = paper_solver_seconds()
"""Seconds of VDA and ESI by (N, C), as published, on an A100."""
QUICK = tuple(size for size in PAPER if size[0] * size[1] <= 250_000)
"""Sizes that take seconds."""
FEATURES = 512
BUDGET = 0.3
REPEATS = 3
LONG = 10.0
"""Seconds from which one measurement is enough."""
LARGEST = 1 << 20
"""Bytes of the file of kept measurements."""


@dataclass(frozen=True)
class Cell:
    """One measurement: the best of the repeats."""

    rows: int
    classes: int
    method: str
    seconds: float
    repeats: int
    inner_iterations: int
    threads: int
    machine: str
    torch: str


def timing_problem(rows: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Predictions, features and labels as a network trained on noisy labels gives them.

    Logits favour the true class by a random margin, features cluster around the class, and 30 % of
    the labels are random.
    """
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randint(0, classes, (rows,), generator=generator)
    margin = 6 * torch.rand(rows, generator=generator)
    logits = 2 * torch.randn(rows, classes, generator=generator)
    logits[torch.arange(rows), truth] += margin
    centres = torch.randn(classes, FEATURES, generator=generator)
    features = centres[truth] + 2 * torch.randn(rows, FEATURES, generator=generator)
    anything = torch.randint(0, classes, (rows,), generator=generator)
    labels = torch.where(torch.rand(rows, generator=generator) < 0.3, anything, truth)
    return logits.softmax(-1), features, labels


def measure(
    sizes: Sequence[tuple[int, int]],
    *,
    kept: Path | None = None,
    repeats: int = REPEATS,
    on_cell: Callable[[Cell], None] = lambda cell: None,
) -> list[Cell]:
    """Measure what `kept` does not hold yet, and keep it there: an interruption loses one cell.

    Measurements of another machine, thread count or version of torch are not taken over.
    """
    known = {(c.rows, c.classes, c.method): c for c in _read(kept) if _is_of_here(c)}
    found = []
    for size, method in _cheapest_first(sizes):
        cell = known.get((*size, method))
        if cell is None:
            cell = known[(*size, method)] = _measure(*size, method, repeats)
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                write_text(kept, json.dumps([asdict(one) for one in known.values()], indent=1))
        found.append(cell)
        on_cell(cell)
    order = {(*size, method): None for size in sizes for method in OPTIONS}
    by_place = {(cell.rows, cell.classes, cell.method): cell for cell in found}
    return [by_place[place] for place in order]


def _cheapest_first(sizes: Sequence[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], str]]:
    for size in sorted(sizes, key=lambda size: size[0] * size[1]):
        for method in (OURS, ESI, VDA):
            yield size, method


def _measure(rows: int, classes: int, method: str, repeats: int) -> Cell:
    probs, features, labels = timing_problem(rows, classes)
    best, done, iterations = float("inf"), 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # The first call of ours compiles, that of the others is like any other.
        if method == OURS:
            solve(probs, features=features, labels=labels, budget=BUDGET)
        while done < repeats and not (done and best > LONG):
            start = time.perf_counter()
            plan = solve(probs, features=features, labels=labels, budget=BUDGET, **OPTIONS[method])
            best = min(best, time.perf_counter() - start)
            done, iterations = done + 1, plan.inner_iterations
    machine, threads, version = _here()
    return Cell(rows, classes, method, best, done, iterations, threads, machine, version)


def _here() -> tuple[str, int, str]:
    machine = f"{os.cpu_count()} cores {platform.machine()}"
    return machine, torch.get_num_threads(), str(torch.__version__)


def _is_of_here(cell: Cell) -> bool:
    return (cell.machine, cell.threads, cell.torch) == _here()


def _read(kept: Path | None) -> list[Cell]:
    if kept is None or not kept.exists():
        return []
    try:
        return [Cell(**row) for row in read_json(kept, LARGEST)]
    except (TypeError, ValueError):
        return []  # of another version: measured again


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
        Measurements, of which the fastest counts; one is enough where a problem takes ten seconds.
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
