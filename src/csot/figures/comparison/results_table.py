"""The paper's tables, of runs measured here and of what the paper printed: never in one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from csot.figures.comparison.measured import EPOCHS as MEASURED_EPOCHS
from csot.figures.comparison.table_model import (
    LAYOUTS,
    MEAN,
    PAPER,
    Column,
    Figure,
    Layout,
    Note,
    ResultTable,
    Row,
)
from csot.figures.comparison.table_rows import measured_rows
from csot.figures.paper import paper_table


def results_table(
    name: str,
    measured: pd.DataFrame,
    *,
    with_paper: bool = False,
    epochs: Sequence[str] = ("peak", "last"),
) -> ResultTable:
    """Make a table of the paper's layout.

    Parameters
    ----------
    name : str
        main, webvision, clothing1m, ablations or hours.
    measured : DataFrame
        From `read_measured`; may be empty.
    with_paper : bool
        Add rows with the paper's figures: of the measured columns, or of all if nothing is
        measured.
    epochs : sequence of str
        Which accuracies of a run: peak, last, best.

    Returns
    -------
    ResultTable
    """
    if name not in LAYOUTS:
        raise ValueError(f"`name` is {name!r}; there are {', '.join(LAYOUTS)}")
    for epoch in epochs:
        if epoch not in MEASURED_EPOCHS:
            raise ValueError(f"`epochs` holds {epoch!r}; there are {', '.join(MEASURED_EPOCHS)}")
    layout = LAYOUTS[name]
    notes: dict[str, Note] = {}
    rows = list(measured_rows(layout, _chosen(layout, measured), epochs, notes))
    columns = list(dict.fromkeys(column for row in rows for column in row.figures))
    remarks = []
    if with_paper:
        printed = list(_paper_rows(name, columns))
        if not printed:
            remarks.append("the paper has no figures for these columns")
        columns = columns or list(dict.fromkeys(c for row in printed for c in row.figures))
        order = {method: n for n, method in enumerate(dict.fromkeys(r.method for r in printed))}
        rows = sorted([*printed, *rows], key=lambda row: order.get(row.method, len(order)))
    if not rows:
        where = f" on {layout.data}" if layout.data else " of CSOT" if layout.only_csot else ""
        raise ValueError(f"there is nothing to show: none of the runs is a finished one{where}")
    if layout.only_csot and len(columns) > 1:
        rows = [_with_mean(row, columns) for row in rows]
        columns = [*columns, MEAN]
    return ResultTable(layout, columns, rows, notes, remarks)


def _chosen(layout: Layout, measured: pd.DataFrame) -> pd.DataFrame:
    """The runs that belong into the table."""
    chosen = measured
    if layout.data is not None and len(chosen):
        chosen = chosen[chosen["data"] == layout.data]
    if layout.only_csot and len(chosen):
        chosen = chosen[chosen["method"].str.partition("@")[0] == "csot"]
    return chosen


def _paper_rows(name: str, columns: Sequence[Column]) -> Iterator[Row]:
    for (label, method, epoch), group in paper_table(name).groupby(
        ["label", "method", "epoch"], sort=False
    ):
        figures = {}
        for cell in group.to_dict("records"):
            column = Column(cell["data"], cell["noise"], cell["test"], cell["metric"])
            if not columns or column in columns:
                digits = len(cell["value"].partition(".")[2])
                deviation = float(cell["deviation"]) if cell["deviation"] else None
                figures[column] = Figure(float(cell["value"]), deviation, digits)
        if figures:
            yield Row(str(label), str(method), PAPER, str(epoch), figures)


def _with_mean(row: Row, columns: Sequence[Column]) -> Row:
    """The mean of all columns, where a row has all of them; with the notes of all."""
    if any(column not in row.figures for column in columns):
        return row
    figures = [row.figures[column] for column in columns]
    letters = {figure.note for figure in figures}
    mean = Figure(
        sum(figure.value for figure in figures) / len(figures),
        note=",".join(sorted(letters)),
    )
    return Row(row.label, row.method, row.source, row.epoch, {**row.figures, MEAN: mean})
