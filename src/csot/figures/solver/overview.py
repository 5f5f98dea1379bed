"""The paper's overview: prediction-based, OT and structure-aware OT pseudo-labels side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot.figures.drawing import Drawing, Tables
from csot.figures.solver.mappings import (
    centroid_table,
    draw_mapping,
    mapping_legend,
    place,
    sample_table,
)
from csot.figures.solver.snapshot_plans import plan_of
from csot.figures.style import PAGE, Theme, bare, matrix_panel, new_figure
from csot.runs.snapshots import Snapshot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PREDICTION, OT, SOT = "prediction", "OT", "SOT"
TITLES = {PREDICTION: "prediction", OT: "optimal transport", SOT: "structure-aware OT"}


def toy_problem() -> tuple[Snapshot, npt.NDArray[np.float64]]:
    """Two classes in a plane whose decision boundary is tilted; and the similarity of the samples.

    The seed is one for which the boundary cuts through neighbours, which is what the figure is to
    show; it is not evidence of how often that happens.
    """
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 12)
    points = np.array([[-1.1, 0.0], [1.1, 0.0]])[truth]
    points = points + rng.normal(size=(24, 2)) * [0.4125, 0.715]
    # Where the network believes the classes to be.
    believed = 0.6 * np.array([[-np.cos(0.8), -np.sin(0.8)], [np.cos(0.8), np.sin(0.8)]])
    believed = believed + np.array([0.3, 0.0])
    distance = ((points[:, None] - believed) ** 2).sum(-1)
    probs = np.exp(-distance / 1.2)
    probs /= probs.sum(1, keepdims=True)
    similarity = np.exp(-((points[:, None] - points) ** 2).sum(-1) / 0.5)
    np.fill_diagonal(similarity, 0.0)
    return Snapshot(probs, points, truth=truth, class_names=["A", "B"]), similarity


def overview(
    snapshot: Snapshot | None = None,
    *,
    similarity: Any = "cosine",
    epsilon: float = 0.1,
    coherence: float = 1.0,
    seed: int = 0,
) -> Drawing:
    """Mappings and transposed coupling matrices of three ways to pseudo-label.

    Parameters
    ----------
    snapshot : Snapshot, optional
        Predictions and features of some samples; by default a toy problem of two classes, on which
        OT maps two neighbours to different centroids.
    similarity : optional
        As in `csot.solve`.
    epsilon, coherence : float
        As in `csot.solve`.
    seed : int
        Seed of t-SNE, if the features have more than two dimensions.
    """
    if snapshot is None:
        snapshot, similarity = toy_problem()
    points, centroids = place(snapshot, seed)
    probs = snapshot.pred_probs
    classical = plan_of(snapshot, epsilon=epsilon, coherence=0.0)
    structured = plan_of(snapshot, epsilon=epsilon, coherence=coherence, similarity=similarity)
    # Every row of a plan without a curriculum has the mass 1/N: times N it sums to one.
    shares = {
        PREDICTION: probs,
        OT: np.asarray(classical.coupling) * len(snapshot),
        SOT: np.asarray(structured.coupling) * len(snapshot),
    }
    samples = sample_table(snapshot, points)
    samples["pair"] = np.isin(samples["sample"], _mended_pair(points, shares[OT], shares[SOT]))
    return Drawing(
        "overview",
        {
            "samples": samples,
            "centroids": centroid_table(snapshot, centroids),
            "shares": pd.concat([_long(name, share) for name, share in shares.items()]),
        },
        _paint,
    )


def _mended_pair(
    points: npt.NDArray[np.float64], before: npt.NDArray[Any], after: npt.NDArray[Any]
) -> list[int]:
    """The nearest two samples that OT maps to different classes and SOT to the same."""
    first, second = before.argmax(1), after.argmax(1)
    apart = (first[:, None] != first) & (second[:, None] == second)
    if not apart.any():
        return []
    distance = np.where(apart, ((points[:, None] - points) ** 2).sum(-1), np.inf)
    return [int(i) for i in np.unravel_index(distance.argmin(), distance.shape)]


def _long(name: str, share: npt.NDArray[Any]) -> pd.DataFrame:
    """One row per sample and class."""
    samples, classes = np.indices(share.shape)
    return pd.DataFrame(
        {
            "method": name,
            "sample": samples.ravel(),
            "class": classes.ravel(),
            "share": share.ravel().astype(np.float64),
        }
    )


def _paint(tables: Tables, theme: Theme) -> Figure:
    samples, centroids, shares = tables["samples"], tables["centroids"], tables["shares"]
    methods = list(dict.fromkeys(shares["method"]))
    figure = new_figure(PAGE, 3.8)
    panels = figure.subplots(2, len(methods), height_ratios=[3, 1], squeeze=False)
    # Samples of one class side by side, from left to right.
    order = samples.sort_values(["true", "x"])["sample"].to_numpy()
    image = None
    for top, below, name in zip(*panels, methods, strict=True):
        mine = shares[shares["method"] == name]
        matrix = mine.pivot(index="class", columns="sample", values="share")
        best = matrix.idxmax(axis=0)
        links = pd.DataFrame(
            {"sample": best.index, "class": best.to_numpy(), "strength": matrix.max().to_numpy()}
        )
        draw_mapping(top, samples, centroids, links, theme)
        pair = samples[samples["pair"]]
        top.scatter(
            pair["x"], pair["y"], s=60, facecolors="none", edgecolors=theme.text, zorder=6, lw=1.0
        )
        bare(top)
        top.margins(0.08)
        right = samples.set_index("sample")["true"]
        known = right[right >= 0]
        note = f": {100 * (best[known.index] == known).mean():.0f} % right" if len(known) else ""
        top.set_title(f"{TITLES[name]}{note}")
        image = matrix_panel(below, matrix[order].to_numpy(), theme, largest=1.0)
        names = centroids["name"].tolist()
        below.set_yticks(range(len(names)), names)
        below.set_xticks([])
        below.set_xlabel("samples, by true class")
    panels[1][0].set_ylabel("class")
    assert image is not None
    bar = figure.colorbar(image, ax=list(panels[1]), shrink=0.9, pad=0.01)
    bar.set_label("share")
    mapping_legend(figure, theme, pair=bool(samples["pair"].any()), faded=False)
    return figure
