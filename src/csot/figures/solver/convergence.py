"""How the objective falls in the outer steps of generalised conditional gradient (Algorithm 2)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from csot.figures.drawing import Drawing, Tables
from csot.figures.solver.snapshot_plans import snapshot_or_digits, titled_plans
from csot.figures.style import DASHES, PAGE, Theme, new_figure, plain, whole_numbers
from csot.ot.array_adapter import as_tensor
from csot.ot.numerics import ConvergenceWarning
from csot.ot.plan import Plan
from csot.ot.solve import solve
from csot.runs.snapshots import Snapshot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OUTER, INNER = 10, 100
"""The paper's iterations."""
COHERENCES = (1.0, 10.0, 30.0)
FLOOR = 1e-9
"""Distances to the lowest objective are drawn down to this; below it they are rounding."""


def convergence(
    snapshot: Snapshot | None = None,
    *,
    budget: float = 0.5,
    epsilon: float = 0.1,
    coherences: tuple[float, ...] = COHERENCES,
) -> Drawing:
    """The paper's 10 x 100 scaling iterations, in float64, for several weights of the coherence.

    Parameters
    ----------
    snapshot : Snapshot, optional
        By default 200 digits after a short warm-up on noisy labels.
    budget, epsilon : float
        As in `csot.solve`; the paper's by default.
    coherences : tuple of float
        One line each; 1 is the paper's.
    """
    found = snapshot_or_digits(snapshot)
    plans = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for kappa in coherences:
            plans[f"κ = {kappa:g}"] = solve(
                found.pred_probs.astype(np.float64),
                features=found.features.astype(np.float64),
                labels=found.labels,
                budget=budget,
                epsilon=epsilon,
                coherence=kappa,
                method="scaling",
                inner_iterations=INNER,
                max_outer=OUTER,
                tolerance=0,
            )
    return draw_convergence(plans)


def draw_convergence(plans: Mapping[str, Plan] | Plan) -> Drawing:
    """Your own plans, by title: their `objective_trace`."""
    parts = []
    for title, plan in titled_plans(plans).items():
        trace = as_tensor("plans", plan.objective_trace).double().cpu().numpy()
        if trace.ndim != 1:
            raise ValueError(f"`plans` must be single problems; {title!r} is a batch")
        parts.append(
            pd.DataFrame(
                {
                    "plan": title,
                    "outer_iteration": np.arange(1, len(trace) + 1),
                    "objective": trace,
                    "above_lowest": trace - trace.min(),
                }
            )
        )
    return Drawing("convergence", {"trace": pd.concat(parts, ignore_index=True)}, _paint)


def _paint(tables: Tables, theme: Theme) -> Figure:
    trace = tables["trace"]
    figure = new_figure(PAGE, 2.4)
    left, right = figure.subplots(1, 2)
    for number, (title, mine) in enumerate(trace.groupby("plan", sort=False)):
        look: dict[str, Any] = {
            "color": theme.colour(number),
            "linestyle": DASHES[number % len(DASHES)],
            "marker": "o",
            "label": str(title),
        }
        above = mine["above_lowest"]
        # Objectives of different weights have different heights: their shapes are compared.
        left.plot(mine["outer_iteration"], 100 * above / (above.iloc[0] or 1.0), **look)
        right.plot(mine["outer_iteration"], above.clip(lower=FLOOR), **look)
    left.set_ylabel("remaining descent (% of the first)")
    left.set_title("what remains to descend")
    right.set_ylabel("objective - lowest (nats)")
    right.set_title(f"the same on a logarithmic scale, down to {FLOOR:g}")
    right.set_yscale("log")
    for axis in (left, right):
        axis.set_xlabel("outer iteration")
        plain(axis)
        whole_numbers(axis)
    left.legend()
    return figure
