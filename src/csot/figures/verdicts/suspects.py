"""A gallery of the most suspicious samples: pictures or texts, with given and suggested label."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from csot._core.errors import clip
from csot._core.pictures import Containment, PictureError, read_rgb
from csot.figures.drawing import Drawing, Tables
from csot.figures.records import titled_runs
from csot.figures.style import PAGE, Theme, new_figure
from csot.figures.verdicts.confusion import Truth
from csot.runs import Run
from csot.runs.findings import CORRECTED, GIVEN, ID, IS_ISSUE, PREDICTED, SCORE
from csot.runs.run import TRUTH
from csot.runs.tables import text_column
from csot.runs.truth import TRUE, judged_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 8
COUNT = 24
SIDE = 160
"""Pixels of a picture."""


def suspects(
    run: str | Path | Run,
    truth: Truth = None,
    *,
    count: int = COUNT,
    allow_outside: bool = False,
) -> Drawing:
    """The flagged samples of lowest `label_score`, with the label that the run suggests.

    Parameters
    ----------
    run : path or Run
        A run of cleaning or training, on images or texts.
    truth : path or mapping, optional
        True labels by id: says about each suggestion whether it is right.
    count : int
        Number of samples.
    allow_outside : bool
        Read pictures that lie outside of the data folder.
    """
    found = next(iter(titled_runs([run]).values()))
    findings, samples = found.read_findings(), found.read_samples()
    flagged = findings[findings[IS_ISSUE]].sort_values(SCORE, kind="stable").head(count)
    if flagged.empty:
        raise ValueError(f"{found.path} flags no label: there is nothing to show")
    kept = flagged[CORRECTED].astype(object) == flagged[GIVEN].astype(object)
    suggested = flagged[CORRECTED].where(~kept, flagged[PREDICTED])
    ids = text_column(flagged.index, found.id_kind)
    table = pd.DataFrame(
        {
            ID: ids.to_numpy(),
            SCORE: flagged[SCORE].to_numpy(),
            "given": text_column(flagged[GIVEN], found.label_kind).to_numpy(),
            "suggested": text_column(suggested, found.label_kind).to_numpy(),
            "true": "",
        }
    )
    if truth is not None or (found.path / TRUTH).exists():
        known = judged_labels(found, truth)[TRUE]
        table["true"] = [known.get(key, "") for key in ids]
    for name in ("image", "text"):
        has = samples is not None and name in samples
        table[name] = (
            samples.loc[flagged.index, name].to_numpy() if has and samples is not None else ""
        )
    pictures = _pictures(found, table["image"].tolist(), allow_outside)
    return Drawing(
        "suspects", {"suspects": table}, lambda tables, theme: _paint(tables, theme, pictures)
    )


def _pictures(run: Run, names: list[str], allow_outside: bool) -> list[Any]:
    """Pixels, or None where a row has no picture that can be read."""
    allowed = Containment(run.image_root, allow_outside)
    found: list[Any] = []
    for name in names:
        try:
            image = read_rgb(allowed.find(name), SIDE) if name else None
        except (PictureError, ValueError):
            image = None
        if image is not None and max(image.size) > SIDE:
            image.thumbnail((SIDE, SIDE))
        found.append(None if image is None else np.asarray(image))
    return found


def _paint(tables: Tables, theme: Theme, pictures: list[Any]) -> Figure:
    table = tables["suspects"]
    if not any(picture is not None for picture in pictures):
        return _paint_texts(table, theme)
    columns = min(COLUMNS, len(table))
    rows = -(-len(table) // columns)
    side = PAGE / columns
    figure = new_figure(PAGE, rows * (side + 0.2) + 0.2)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel in panels:
        panel.set_axis_off()
    for panel, (_, row), picture in zip(panels, table.iterrows(), pictures, strict=False):
        if picture is not None:
            panel.imshow(picture, interpolation="nearest")
        else:
            panel.text(0.5, 0.5, "no picture", ha="center", va="center", fontsize=6)
        panel.set_title(
            f"{clip(row['given'], 14)} → {clip(row['suggested'], 14)}{_mark(row)}",
            fontsize=7,
            pad=2,
            color=_colour(row, theme),
        )
    figure.supxlabel(_key(table), fontsize=7)
    return figure


def _paint_texts(table: pd.DataFrame, theme: Theme) -> Figure:
    figure = new_figure(PAGE, 0.19 * len(table) + 0.6)
    axis = figure.subplots()
    axis.set_axis_off()
    axis.set_ylim(len(table) - 0.5, -0.5)
    for number, (_, row) in enumerate(table.reset_index(drop=True).iterrows()):
        label = f"{clip(row['given'], 14)} → {clip(row['suggested'], 14)}{_mark(row)}"
        shown = clip(" ".join(str(row["text"] or row[ID]).split()), 95)
        axis.text(0, number, label, color=_colour(row, theme), fontsize=7)
        axis.text(0.26, number, shown, fontsize=7)
    axis.set_title(_key(table), fontsize=7, loc="left")
    return figure


def _is_right(row: pd.Series[Any]) -> bool | None:
    return None if row["true"] == "" else bool(row["true"] == row["suggested"])


def _mark(row: pd.Series[Any]) -> str:
    right = _is_right(row)
    return "" if right is None else " ✓" if right else f" ✗ ({clip(row['true'], 10)})"


def _colour(row: pd.Series[Any], theme: Theme) -> str:
    right = _is_right(row)
    return theme.text if right is None else theme.colour(2) if right else theme.colour(1)


def _key(table: pd.DataFrame) -> str:
    known = table[table["true"] != ""]
    key = "given → suggested label, the most suspicious first"
    if known.empty:
        return key
    right = int((known["true"] == known["suggested"]).sum())
    return f"{key}; ✓ {right} of {len(known)} suggestions are right, ✗ (the true label) are not"
