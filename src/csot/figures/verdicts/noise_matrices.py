"""The noise matrix that a run estimated, beside the true one where it is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot.figures.drawing import Drawing, Tables
from csot.figures.style import PAGE, Theme, new_figure
from csot.figures.titles import titled_runs
from csot.figures.verdicts.confusion import Truth, count_pairs, draw_shares, share_bar
from csot.runs import Run
from csot.runs.findings import GIVEN
from csot.runs.run import TRUTH
from csot.runs.truth import TRUE, judged_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def noise_matrix(run: str | Path | Run, truth: Truth = None) -> Drawing:
    """How often each true class carries each label, in shares of the class.

    Parameters
    ----------
    run : path or Run
        Of cleaning or training.
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
    return Drawing("noise-matrix", {"shares": pd.concat(parts, ignore_index=True)}, _paint)


def _long(title: str, shares: npt.NDArray[np.float64], names: list[str]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "matrix": title,
            "true": np.repeat(names, len(names)),
            "given": np.tile(names, len(names)),
            "share": shares.ravel(),
        }
    )


def _paint(tables: Tables, theme: Theme) -> Figure:
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
