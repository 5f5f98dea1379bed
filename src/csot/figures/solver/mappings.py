"""CSOT's mapping of samples to classes at several budgets, on a t-SNE of the features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot._core.array_types import Floats
from csot.figures.drawing import Drawing, Tables
from csot.figures.solver.snapshot_plans import plan_of, snapshot_or_digits
from csot.figures.style import PAGE, Theme, bare, new_figure
from csot.runs.snapshots import Snapshot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from csot.figures.style import Theme

PERPLEXITY = 30.0
MOST_NAMED = 20
"""Classes whose names are written beside their stars."""


def class_centroids(pred_probs: npt.ArrayLike, features: npt.ArrayLike) -> Floats:
    """(C, D): the mean of the features weighted by the predicted probability of each class.

    The paper's implicit class centroids: c_k = sum_i P_ik f_i / sum_i P_ik.
    """
    probs = np.asarray(pred_probs, dtype=np.float64)
    totals = np.maximum(probs.sum(0), np.finfo(np.float64).tiny)
    return np.asarray(probs.T @ np.asarray(features, dtype=np.float64) / totals[:, None])


def place(snapshot: Snapshot, seed: int = 0) -> tuple[Floats, Floats]:
    """Points (N, 2) of the samples and (C, 2) of the centroids.

    Features of two dimensions are the plane itself; others are embedded by t-SNE, samples and
    centroids together.
    """
    features = snapshot.features.astype(np.float64)
    centroids = class_centroids(snapshot.pred_probs, features)
    if features.shape[1] == 2:
        return features, centroids
    from sklearn.manifold import TSNE

    both = np.concatenate([features, centroids])
    perplexity = min(PERPLEXITY, (len(both) - 1) / 3)
    found = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(both)
    return found[: len(features)].astype(np.float64), found[len(features) :].astype(np.float64)


def sample_table(snapshot: Snapshot, points: Floats) -> pd.DataFrame:
    """Sample, x, y, given and true class: -1 where unknown."""
    unknown = np.full(len(snapshot), -1)
    return pd.DataFrame(
        {
            "sample": np.arange(len(snapshot)),
            "x": points[:, 0],
            "y": points[:, 1],
            "given": unknown if snapshot.labels is None else snapshot.labels,
            "true": unknown if snapshot.truth is None else snapshot.truth,
        }
    )


def centroid_table(snapshot: Snapshot, centroids: Floats) -> pd.DataFrame:
    """Class, name, x, y."""
    return pd.DataFrame(
        {
            "class": np.arange(len(centroids)),
            "name": snapshot.class_names,
            "x": centroids[:, 0],
            "y": centroids[:, 1],
        }
    )


def draw_mapping(
    axis: Axes,
    samples: pd.DataFrame,
    centroids: pd.DataFrame,
    links: pd.DataFrame,
    theme: Theme,
) -> None:
    """Dots and stars coloured by class; a line for each link, dashed where it is wrong.

    `links` has the columns sample, class and strength (from 0 to 1).
    """
    at, stars = samples.set_index("sample"), centroids.set_index("class")
    _draw_links(axis, at, stars, links, theme)
    _draw_samples(axis, at, at.index.isin(links["sample"]), theme)
    axis.scatter(
        stars["x"],
        stars["y"],
        s=130,
        marker="*",
        c=[theme.class_colour(int(k)) for k in stars.index],
        edgecolors=theme.text,
        linewidths=0.7,
        zorder=4,
    )
    if len(stars) <= MOST_NAMED:
        _name_stars(axis, stars, theme)


def _draw_links(
    axis: Axes, at: pd.DataFrame, stars: pd.DataFrame, links: pd.DataFrame, theme: Theme
) -> None:
    from matplotlib.collections import LineCollection

    first = at.loc[links["sample"], ["x", "y"]].to_numpy()
    last = stars.loc[links["class"], ["x", "y"]].to_numpy()
    ends = np.stack([first, last], axis=1)
    truth = at.loc[links["sample"], "true"].to_numpy()
    wrong = (truth >= 0) & (truth != links["class"].to_numpy())
    strength = links["strength"].to_numpy(dtype=np.float64)
    for is_wrong in (False, True):
        chosen = np.flatnonzero(wrong == is_wrong)
        colours = [theme.class_colour(int(k)) for k in links["class"].iloc[chosen]]
        lines = LineCollection(
            list(ends[chosen]),
            colors=theme.text if is_wrong else colours,
            linestyles="--" if is_wrong else "-",
            linewidths=0.8 if is_wrong else 0.6,
            alpha=list(0.75 * strength[chosen]) if len(chosen) else None,
            zorder=2 if is_wrong else 1,
        )
        axis.add_collection(lines)


def _draw_samples(
    axis: Axes, at: pd.DataFrame, linked: npt.NDArray[np.bool_], theme: Theme
) -> None:
    """Draw dots coloured by true class, else by given class; faint where no line begins."""
    classes = at["true"].where(at["true"] >= 0, at["given"]).tolist()
    colours = np.array([theme.class_colour(int(k)) if k >= 0 else theme.faint for k in classes])
    for shown, alpha in ((linked, 1.0), (~linked, 0.35)):
        axis.scatter(
            at["x"][shown],
            at["y"][shown],
            s=11,
            c=list(colours[shown]),
            alpha=alpha,
            linewidths=0.3,
            edgecolors=theme.background,
            zorder=3,
        )


def _name_stars(axis: Axes, stars: pd.DataFrame, theme: Theme) -> None:
    """Each name on the side away from the nearest other star."""
    from matplotlib.patheffects import withStroke

    at = stars[["x", "y"]].to_numpy(dtype=np.float64)
    apart = ((at[:, None] - at) ** 2).sum(-1)
    np.fill_diagonal(apart, np.inf)
    for number, name in enumerate(stars["name"]):
        nearest = at[apart[number].argmin()] if len(at) > 1 else at[number] - 1
        side = 1 if at[number, 0] >= nearest[0] else -1
        axis.annotate(
            str(name),
            (at[number, 0], at[number, 1]),
            xytext=(6 * side, 3),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            fontsize=7,
            fontweight="bold",
            color=theme.text,
            path_effects=[withStroke(linewidth=1.8, foreground=theme.background)],
            zorder=5,
        )


def mapping_legend(figure: Figure, theme: Theme, *, pair: bool = False, faded: bool = True) -> None:
    """What stars, lines and rings mean, below the panels."""
    from matplotlib.lines import Line2D

    def mark(label: str, **look: Any) -> Line2D:
        return Line2D([], [], label=label, color=theme.text, **look)

    marks = [
        mark("sample, coloured by true class", ls="", marker="o", ms=3),
        mark("class centroid", ls="", marker="*", ms=8),
        mark("mapped to a wrong class", ls="--", lw=0.8),
    ]
    if faded:
        marks.insert(1, mark("not selected", ls="", marker="o", ms=3, alpha=0.35))
    if pair:
        marks.append(mark("neighbours parted by OT", ls="", marker="o", ms=7, mfc="none"))
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), handletextpad=0.4)


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
        As in `csot.solve`.
    seed : int
        Seed of t-SNE.
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
