"""The paper's tables, of runs measured here and of what the paper printed: never in one row."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from csot.figures.comparison.measured import EPOCHS as MEASURED_EPOCHS
from csot.figures.comparison.table_model import (
    LAYOUTS,
    MEAN,
    MEASURED,
    PAPER,
    Column,
    Figure,
    Layout,
    Note,
    ResultTable,
    Row,
)
from csot.figures.paper_numbers import paper_table
from csot.runs.summary import HELD_OUT


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


LISTED_SETTINGS = 5
"""Settings named where two rows differ in nothing else."""


def measured_rows(
    layout: Layout, runs: pd.DataFrame, epochs: Sequence[str], notes: dict[str, Note]
) -> Iterator[Row]:
    """Rows by method; a method has several if a column was measured under several conditions."""
    if not len(runs):
        return
    in_hours = layout.metrics == ("hours",)
    place = ["data"] if in_hours else ["data", "noise"]
    same = ["rows", "epochs", "network", "batch_size", "hardware"] if in_hours else ["identity"]
    for method, of_method in runs.groupby("method", sort=False):
        variants: list[dict[str, dict[Column, Figure]]] = []
        for _, of_place in of_method.groupby(place, sort=False):
            groups = [group for _, group in of_place.groupby(same, sort=False, dropna=False)]
            differences = _differences(groups) if not in_hours else [""] * len(groups)
            for number, (group, difference) in enumerate(zip(groups, differences, strict=True)):
                if number == len(variants):
                    variants.append({})
                letter = _note(group, difference, notes, check_seeds=not in_hours)
                for epoch, column, figure in _figures(layout, group, epochs, letter):
                    variants[number].setdefault(epoch, {})[column] = figure
        for variant in variants:
            for epoch, figures in variant.items():
                yield Row(str(method), str(method), MEASURED, epoch, figures)


def _figures(
    layout: Layout, group: pd.DataFrame, epochs: Sequence[str], letter: str
) -> Iterator[tuple[str, Column, Figure]]:
    """Epoch, column and figure of runs that differ in nothing but the seed."""
    data, noise = group["data"].iloc[0], group["noise"].iloc[0]
    if layout.metrics == ("hours",):
        figure = _mean(group["seconds"].astype(float) / 3600, 3, letter)
        yield "", Column(data, "", metric="hours"), figure
        return
    for epoch in epochs:
        for test in layout.tests:
            for metric in layout.metrics:
                prefix = "" if test in ("", data) else f"{test}_"
                name = prefix + ("top5_" if metric == "top5" else "") + epoch
                if name in group and group[name].notna().all():
                    values = 100 * group[name].astype(float)
                    yield epoch, Column(data, noise, test, metric), _mean(values, 2, letter)


def _mean(values: pd.Series[Any], digits: int, letter: str) -> Figure:
    deviation = float(values.std(ddof=1)) if len(values) > 1 else None
    return Figure(float(values.mean()), deviation, digits, letter)


def _note(
    group: pd.DataFrame, difference: str, notes: dict[str, Note], *, check_seeds: bool
) -> str:
    """The letter of the note on these runs, a new one if there is none yet."""
    seeds = [int(seed) for seed in group["seed"]]
    if check_seeds and len(set(seeds)) < len(seeds):
        twice = group[group["seed"].duplicated(keep=False)]
        raise ValueError(
            f"{' and '.join(twice['run'])} are the same run twice ({twice['method'].iloc[0]} on "
            f"{twice['data'].iloc[0]}, noise {twice['noise'].iloc[0]}, seed "
            f"{twice['seed'].iloc[0]}): give one of them"
        )
    first = group.iloc[0]
    scale = (
        f"{int(first['rows']):,} training rows, {int(first['epochs'])} epochs, "
        f"{first['network']}, batches of {first['batch_size']}"
    )
    if first["selected_on"] not in ("", HELD_OUT):
        scale += f", best epoch by {first['selected_on']}"
    scale += f", {difference}" if difference else ""
    hardware = " or ".join(dict.fromkeys(filter(None, group["hardware"])))
    note = Note(scale, tuple(sorted(set(seeds))), hardware)
    for letter, known in notes.items():
        if known == note:
            return letter
    number, letters = len(notes), string.ascii_lowercase
    letter = letters[number] if number < 26 else letters[number // 26 - 1] + letters[number % 26]
    notes[letter] = note
    return letter


def _differences(groups: Sequence[pd.DataFrame]) -> list[str]:
    """Describe the settings in which each group of runs differs from the others."""
    if len(groups) == 1:
        return [""]
    flat = pd.json_normalize([json.loads(group["identity"].iloc[0]) for group in groups])
    rows: list[dict[str, Any]] = flat.astype(str).to_dict("records")  # type: ignore[assignment]
    shown = [
        name
        for name in rows[0]
        if len({row[name] for row in rows}) > 1 and not name.startswith("training.network")
    ]
    return [
        ", ".join(f"{name.rpartition('.')[2]} {row[name]}" for name in shown[:LISTED_SETTINGS])
        for row in rows
    ]
