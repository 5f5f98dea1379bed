"""Matrices of classes: true against given and corrected labels; the noise matrix of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot.figures.drawing import Drawing, Tables
from csot.figures.records import titled_runs
from csot.figures.style import PAGE, Theme, matrix_panel, new_figure
from csot.runs import Run
from csot.runs.findings import CORRECTED, GIVEN
from csot.runs.run import TRUTH
from csot.runs.truth import TRUE, class_codes, judged_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

MOST_PANELS = 4
WRITTEN = 12
"""Classes up to which the shares are written into the cells."""
Truth = Mapping[Any, Any] | str | Path | None


def confusion(runs: Sequence[str | Path | Run], truth: Truth = None) -> Drawing:
    """Shares of each true class by label: given, and corrected by each run.

    Parameters
    ----------
    runs : sequence of path or Run
        Runs of training or cleaning, on the same data. The given labels are those of the first run;
        at most three runs are drawn.
    truth : path or mapping, optional
        True labels by id; a training run on added noise knows them.
    """
    titled = titled_runs(runs)
    first = next(iter(titled.values()))
    names = [str(name) for name in first.read_summary()["class_names"]]
    parts = [_counted("given", judged_labels(first, truth), GIVEN, names)]
    for title, run in list(titled.items())[: MOST_PANELS - 1]:
        label = "corrected" if len(titled) == 1 else f"corrected: {title}"
        parts.append(_counted(label, judged_labels(run, truth), CORRECTED, names))
    return Drawing("confusion", {"shares": pd.concat(parts, ignore_index=True)}, _paint)


def _counted(title: str, rows: pd.DataFrame, column: str, names: list[str]) -> pd.DataFrame:
    counts = count_pairs(rows[TRUE], rows[column], names)
    totals = counts.sum(1, keepdims=True)
    shares = counts / np.maximum(totals, 1)
    return pd.DataFrame(
        {
            "labels": title,
            "true": np.repeat(names, len(names)),
            "label": np.tile(names, len(names)),
            "count": counts.ravel().astype(np.int64),
            "share": shares.ravel(),
        }
    )


def count_pairs(
    true: pd.Series[Any], label: pd.Series[Any], names: list[str]
) -> npt.NDArray[np.float64]:
    """(C, C): rows of each true class by label; rows without either do not count."""
    first, second = class_codes(true, names), class_codes(label, names)
    counts = np.zeros((len(names), len(names)))
    known = (first >= 0) & (second >= 0)
    np.add.at(counts, (first[known], second[known]), 1)
    return counts


def _paint(tables: Tables, theme: Theme) -> Figure:
    table = tables["shares"]
    panels = list(dict.fromkeys(table["labels"]))
    names = list(dict.fromkeys(table["true"].astype(str)))
    columns = len(panels) if len(panels) <= 3 else 2
    rows = -(-len(panels) // columns)
    # Square panels, as wide as the scale on the right leaves them.
    figure = new_figure(PAGE, rows * (0.8 * PAGE / max(2, columns) + 0.6))
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    image = None
    for axis, title in zip(axes, panels, strict=False):
        mine = table[table["labels"] == title]
        shares = mine["share"].to_numpy().reshape(len(names), len(names))
        counts = mine["count"].to_numpy().reshape(len(names), len(names))
        right = np.trace(counts) / max(1, counts.sum())
        image = draw_shares(axis, shares, names, theme, small=columns > 2)
        kind, _, method = title.partition(": ")
        axis.set_title(f"{method or kind}: {100 * right:.1f} % right")
        axis.set_xlabel(f"{kind} label")
    for axis in axes[::columns]:
        axis.set_ylabel("true label")
    assert image is not None
    share_bar(figure, image)
    return figure


def share_bar(figure: Figure, image: AxesImage) -> None:
    """The scale of `draw_shares`, in the per cent of its cells."""
    from matplotlib.ticker import PercentFormatter

    bar = figure.colorbar(
        image, ax=figure.axes, shrink=0.75, pad=0.01, format=PercentFormatter(1, symbol="")
    )
    bar.set_label("% of the true class")


def draw_shares(
    axis: Axes,
    shares: npt.NDArray[Any],
    names: Sequence[str],
    theme: Theme,
    *,
    small: bool = False,
    largest: float = 1.0,
) -> Any:
    """A matrix of shares, with the numbers in the cells where there is room."""
    image = matrix_panel(axis, shares, theme, largest=largest, aspect="equal")
    if len(names) <= WRITTEN:
        turned = max(map(len, names)) > 3
        axis.set_xticks(range(len(names)), names, rotation=90 if turned else 0)
        axis.set_yticks(range(len(names)), names)
        for (i, k), share in np.ndenumerate(shares):
            if share >= 0.005:
                # The text is the background's colour on strong cells.
                colour = theme.background if share > 0.55 * largest else theme.text
                look: dict[str, Any] = {
                    "ha": "center",
                    "va": "center",
                    "fontsize": 5.5 if small else 6,
                }
                axis.text(k, i, f"{100 * share:.0f}", color=colour, **look)
    return image


def noise_matrix(run: str | Path | Run, truth: Truth = None) -> Drawing:
    """How often each true class carries each label, in shares of the class.

    Parameters
    ----------
    run : path or Run
        A run of cleaning or training.
    truth : path or mapping, optional
        True labels by id; without them only the estimate is drawn.
    """
    found = next(iter(titled_runs([run]).values()))
    summary = found.read_summary()
    names = [str(name) for name in summary["class_names"]]
    if summary.get("noise_matrix") is None:
        raise ValueError(f"{found.path} has no noise matrix: its labels could not be judged")
    estimated = np.array(summary["noise_matrix"], dtype=np.float64)
    parts = [_long("estimated", estimated, names)]
    if truth is not None or (found.path / TRUTH).exists():
        rows = judged_labels(found, truth)
        counts = count_pairs(rows[TRUE], rows[GIVEN], names)
        parts.append(_long("true", counts / np.maximum(counts.sum(1, keepdims=True), 1), names))
    return Drawing("noise-matrix", {"shares": pd.concat(parts, ignore_index=True)}, _paint_noise)


def _long(title: str, shares: npt.NDArray[np.float64], names: list[str]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "matrix": title,
            "true": np.repeat(names, len(names)),
            "given": np.tile(names, len(names)),
            "share": shares.ravel(),
        }
    )


def _paint_noise(tables: Tables, theme: Theme) -> Figure:
    table = tables["shares"]
    matrices = list(dict.fromkeys(table["matrix"]))
    names = list(dict.fromkeys(table["true"].astype(str)))
    figure = new_figure(PAGE * (len(matrices) + 0.3) / 2.3, PAGE / 2 + 0.2)
    cells = {
        title: table[table["matrix"] == title]["share"].to_numpy().reshape(len(names), -1)
        for title in matrices
    }
    image = None
    for axis, (title, shares) in zip(
        figure.subplots(1, len(cells), squeeze=False)[0], cells.items(), strict=True
    ):
        image = draw_shares(axis, shares, names, theme, largest=float(table["share"].max()))
        axis.set_title(f"{title} noise matrix")
        axis.set_xlabel("given label")
    if len(cells) == 2:
        apart = 100 * np.abs(cells["estimated"] - cells["true"]).max()
        figure.axes[1].set_title(f"true noise matrix (largest difference {apart:.0f} points)")
    figure.axes[0].set_ylabel("true label")
    assert image is not None
    share_bar(figure, image)
    return figure
