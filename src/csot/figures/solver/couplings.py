"""Transposed coupling matrices with the sums of their rows and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot.figures.drawing import Drawing, Tables
from csot.figures.solver.mappings import BUDGETS
from csot.figures.solver.snapshot_plans import plan_of, snapshot_or_digits, titled_plans
from csot.figures.style import PAGE, Theme, matrix_panel, new_figure, plain
from csot.ot.array_adapter import as_tensor
from csot.ot.plan import Plan
from csot.runs.snapshots import Snapshot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILONS = (0.01, 0.05, 0.1, 0.5)
MOST_SAMPLES = 400
"""Most columns that can be told apart; of more samples, evenly spaced ones are drawn."""
MOST_NAMED = 5


def couplings(
    snapshot: Snapshot | None = None,
    *,
    budgets: Sequence[float] = BUDGETS,
    epsilon: float = 0.1,
    coherence: float = 1.0,
) -> Drawing:
    """The plans of several budgets; arguments as in `mappings`."""
    found = snapshot_or_digits(snapshot)
    plans = {
        f"m = {budget:g}": plan_of(found, budget=budget, epsilon=epsilon, coherence=coherence)
        for budget in budgets
    }
    return draw_plans(plans, order=_order(found), class_names=found.class_names)


def epsilons(
    snapshot: Snapshot | None = None,
    *,
    epsilons: Sequence[float] = EPSILONS,
    budget: float = 0.5,
    coherence: float = 1.0,
) -> Drawing:
    """The plans of several weights of the entropy, at one budget: a smaller one is sharper."""
    found = snapshot_or_digits(snapshot)
    plans = {
        f"ε = {value:g}": plan_of(found, budget=budget, epsilon=value, coherence=coherence)
        for value in epsilons
    }
    names = found.class_names
    return draw_plans(plans, order=_order(found), class_names=names, name="epsilons")


def draw_plans(
    plans: Mapping[str, Plan] | Plan,
    *,
    order: npt.ArrayLike | None = None,
    class_names: Sequence[str] | None = None,
    name: str = "couplings",
) -> Drawing:
    """Your own plans as transposed coupling matrices, one below the other.

    Parameters
    ----------
    plans : Plan or mapping of Plan
        By title; all of the same number of samples and classes.
    order : (N,) array of int, optional
        The samples from left to right, such as sorted by true class; by default by pseudo-label.
    class_names : sequence of str, optional
    name : str
        Name of the files.
    """
    matrices = {title: _scaled(plan) for title, plan in titled_plans(plans).items()}
    shapes = {matrix.shape for matrix in matrices.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2:
        raise ValueError(f"`plans` must have one shape (N, C), got {sorted(shapes)}")
    n, classes = next(iter(shapes))
    first = next(iter(matrices.values()))
    ordered = np.argsort(first.argmax(1), kind="stable") if order is None else np.asarray(order)
    if sorted(ordered.tolist()) != list(range(n)):
        raise ValueError(f"`order` must hold the numbers 0 to {n - 1} once each")
    names = [str(k) for k in range(classes)] if class_names is None else list(map(str, class_names))
    parts = [_tables(title, matrix, ordered, names) for title, matrix in matrices.items()]
    return Drawing(
        name,
        {part: pd.concat([one[part] for one in parts], ignore_index=True) for part in parts[0]},
        _paint,
    )


def _tables(
    title: str, matrix: npt.NDArray[np.float64], order: npt.NDArray[Any], names: list[str]
) -> dict[str, pd.DataFrame]:
    """Cells, row sums (N times) and column sums of one plan; samples from left to right."""
    n, classes = matrix.shape
    place = np.arange(n)
    cells = {
        "plan": title,
        "place": np.repeat(place, classes),
        "sample": np.repeat(order, classes),
        "class": np.tile(np.arange(classes), n),
        "share": matrix[order].ravel(),
    }
    rows = {"plan": title, "place": place, "sample": order, "row_sum": matrix.sum(1)[order]}
    columns = {
        "plan": title,
        "class": np.arange(classes),
        "name": names,
        "column_sum": matrix.sum(0) / n,
    }
    tables = {"cells": cells, "rows": rows, "columns": columns}
    return {part: pd.DataFrame(values) for part, values in tables.items()}


def _order(snapshot: Snapshot) -> npt.NDArray[np.intp]:
    """Order samples by true, given or predicted class, whichever is known first."""
    for labels in (snapshot.truth, snapshot.labels):
        if labels is not None:
            return np.argsort(labels, kind="stable")
    return np.argsort(snapshot.pred_probs.argmax(1), kind="stable")


def _scaled(plan: Plan) -> npt.NDArray[np.float64]:
    """N Q: a row that is allocated completely sums to one."""
    coupling = as_tensor("plans", plan.coupling).detach().double().cpu().numpy()
    return np.asarray(coupling * coupling.shape[-2])


def _paint(tables: Tables, theme: Theme) -> Figure:
    cells, rows, columns = tables["cells"], tables["rows"], tables["columns"]
    titles = list(dict.fromkeys(cells["plan"]))
    names = columns[columns["plan"] == titles[0]]["name"].tolist()
    figure = new_figure(PAGE, 1.35 * len(titles) + 0.3)
    grid = figure.add_gridspec(
        2 * len(titles), 2, width_ratios=[8, 1], height_ratios=[1, 2.6] * len(titles)
    )
    most = float(columns["column_sum"].max())
    image = None
    for number, title in enumerate(titles):
        matrix = cells[cells["plan"] == title].pivot(index="class", columns="place", values="share")
        shown = np.unique(np.linspace(0, matrix.shape[1] - 1, MOST_SAMPLES).astype(int))
        main = figure.add_subplot(grid[2 * number + 1, 0])
        image = matrix_panel(main, matrix.to_numpy()[:, shown], theme, largest=1.0)
        main.set_ylabel("class")
        main.set_xticks([])
        # As many names as there is room for.
        step = -(-len(names) // MOST_NAMED)
        main.set_yticks(range(0, len(names), step), names[::step], fontsize=6)
        top = figure.add_subplot(grid[2 * number, 0])
        sums = rows[rows["plan"] == title].set_index("place")["row_sum"].iloc[shown]
        # One shape: hundreds of bars take seconds to draw.
        edges = np.arange(len(shown) + 1) - 0.5
        top.stairs(sums.to_numpy(), edges, fill=True, color=theme.colour(0))
        top.set_xlim(-0.5, len(shown) - 0.5)
        top.set_ylim(0, 1.05)
        top.set_yticks([0, 1])
        top.set_xticks([])
        top.set_ylabel("N x row\nsum", fontsize=6)
        allocated = float(rows[rows["plan"] == title]["row_sum"].mean())
        top.set_title(
            f"{title}: {100 * allocated:.0f} % of the mass is allocated".lstrip(": "), loc="left"
        )
        plain(top, grid=False)
        side = figure.add_subplot(grid[2 * number + 1, 1])
        totals = columns[columns["plan"] == title]
        side.barh(totals["class"], totals["column_sum"], color=theme.colour(1))
        side.set_ylim(len(names) - 0.5, -0.5)
        side.set_xlim(0, 1.1 * most)
        side.set_yticks([])
        plain(side, grid=False)
        if number == len(titles) - 1:
            main.set_xlabel("samples, class by class")
            side.set_xlabel("column sum")
    assert image is not None
    bar = figure.colorbar(image, ax=figure.axes, shrink=0.5, pad=0.01, aspect=30)
    bar.set_label("N x coupling (share of a sample)")
    return figure
