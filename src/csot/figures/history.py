"""One training run as a picture: losses, accuracies, and what became of the labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from csot._core.atomic import atomic_write
from csot._core.errors import naming
from csot._core.files import check_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LARGEST = 64 << 20
"""Bytes of metrics.csv; an epoch has some 300."""
ACCURACIES = {
    "test_accuracy": "test",
    "test_top5": "test, top 5",
    "holdout_accuracy": "held out (noisy labels)",
    "clean_accuracy": "of trusted labels",
    "corrected_accuracy": "of replaced labels",
    "clean_recall": "right labels trusted",
}
COUNTS = {"clean": "trusted", "corrected": "replaced", "selected": "selected"}


def write_history(run: Path) -> Path:
    """curves.png, from metrics.csv."""
    figure = draw_history(read_history(run))
    with atomic_write(run / "curves.png") as file:
        figure.savefig(file, format="png", dpi=110)
    return run / "curves.png"


def read_history(run: Path) -> pd.DataFrame:
    """metrics.csv: a row for each epoch, and only numbers."""
    path = run / "metrics.csv"
    check_file(path, LARGEST)
    with naming(path, "a table of numbers by epoch"):
        frame = pd.read_csv(path, index_col=False)
        if "epoch" not in frame or not all(
            pd.api.types.is_numeric_dtype(dtype) for dtype in frame.dtypes
        ):
            raise ValueError("it needs a column epoch, and numbers in all columns")
        return frame


def draw_history(history: pd.DataFrame) -> Figure:
    """Panels side by side; those of which nothing was measured are left out."""
    from matplotlib.figure import Figure

    losses = [str(name) for name in history.columns if str(name).startswith("loss")]
    panels = [
        ("Losses", {name: name.removeprefix("loss_") for name in losses}, 1.0),
        ("Accuracy, per cent", ACCURACIES | further_tests(history), 100.0),
        ("Labels", COUNTS, 1.0),
    ]
    shown = [panel for panel in panels if any(name in history for name in panel[1])]
    # Fixed margins: a computed layout would take half of the time of a short run.
    width = 4.8 * len(shown)
    figure = Figure(figsize=(width, 3.4))
    axes = figure.subplots(
        1,
        len(shown),
        squeeze=False,
        gridspec_kw={
            "left": 0.7 / width,
            "right": 1 - 0.1 / width,
            "bottom": 0.14,
            "top": 0.91,
            "wspace": 0.16,
        },
    )[0]
    for axis, (title, columns, scale) in zip(axes, shown, strict=True):
        _draw(axis, history, columns, scale)
        axis.set_title(title)
    return figure


def further_tests(history: pd.DataFrame) -> dict[str, str]:
    """Columns of the test sets after the first, and what to call them."""
    prefixes = {"test_accuracy_": "", "test_top5_": ", top 5"}
    return {
        str(name): str(name).removeprefix(prefix) + words
        for prefix, words in prefixes.items()
        for name in history.columns
        if str(name).startswith(prefix)
    }


def _draw(axis: Axes, history: pd.DataFrame, columns: dict[str, str], scale: float) -> None:
    from matplotlib.ticker import MaxNLocator

    for name, text in columns.items():
        if name in history:
            known = history[["epoch", name]].dropna()
            axis.plot(known["epoch"], scale * known[name], label=text, lw=1.5)
    axis.set_xlabel("epoch")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize="small")
