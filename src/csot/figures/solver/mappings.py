"""CSOT's mapping of samples to classes at several budgets, on a t-SNE of the features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from csot.figures.drawing import Drawing, Tables
from csot.figures.solver.plane import (
    centroid_table,
    draw_mapping,
    mapping_legend,
    place,
    sample_table,
)
from csot.figures.solver.solved import plan_of, snapshot_or_digits
from csot.figures.style import PAGE, Theme, bare, new_figure
from csot.runs.snapshots import Snapshot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGETS = (0.3, 0.5, 0.7, 1.0)


def mappings(
    snapshot: Snapshot | None = None,
    *,
    budgets: Sequence[float] = BUDGETS,
    epsilon: float = 0.1,
    coherence: float = 1.0,
    seed: int = 0,
) -> Drawing:
    """Samples as dots, class centroids as stars, and a line for each sample that is selected.

    Parameters
    ----------
    snapshot : Snapshot, optional
        By default 200 digits after a short warm-up on noisy labels.
    budgets : sequence of float
        One panel each.
    epsilon, coherence : float
        As of `csot.solve`.
    seed : int
        Of t-SNE.
    """
    found = snapshot_or_digits(snapshot)
    points, centroids = place(found, seed)
    parts = []
    for budget in budgets:
        plan = plan_of(found, budget=budget, epsilon=epsilon, coherence=coherence)
        parts.append(
            pd.DataFrame(
                {
                    "budget": budget,
                    "sample": np.arange(len(found)),
                    "class": np.asarray(plan.labels),
                    "confidence": np.asarray(plan.confidence, dtype=np.float64),
                    "selected": np.asarray(plan.selected),
                }
            )
        )
    tables = {
        "samples": sample_table(found, points),
        "centroids": centroid_table(found, centroids),
        "mapping": pd.concat(parts, ignore_index=True),
    }
    return Drawing("mappings", tables, _paint)


def _paint(tables: Tables, theme: Theme) -> Figure:
    samples, mapping = tables["samples"], tables["mapping"]
    budgets = list(dict.fromkeys(mapping["budget"]))
    columns = min(2, len(budgets))
    rows = -(-len(budgets) // columns)
    figure = new_figure(PAGE, 0.4 * PAGE * rows + 0.3)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel in panels[len(budgets) :]:
        panel.set_visible(False)
    truth = samples.set_index("sample")["true"]
    for panel, budget in zip(panels, budgets, strict=False):
        mine = mapping[(mapping["budget"] == budget) & mapping["selected"]]
        links = mine[["sample", "class"]].assign(strength=0.8)
        draw_mapping(panel, samples, tables["centroids"], links, theme)
        known = mine[truth.loc[mine["sample"]].to_numpy() >= 0]
        right = (truth.loc[known["sample"]].to_numpy() == known["class"].to_numpy()).mean()
        note = f", {100 * right:.0f} % of them right" if len(known) else ""
        panel.set_title(f"budget m = {budget:g}: {len(mine)} samples mapped{note}")
        bare(panel)
    for panel in panels[::columns]:
        panel.set_ylabel("t-SNE 2")
    for panel in panels[-columns:]:
        panel.set_xlabel("t-SNE 1")
    mapping_legend(figure, theme)
    return figure
