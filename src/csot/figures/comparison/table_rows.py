"""Rows of a table of results from runs: mean and deviation over seeds, and the notes on them."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from csot.figures.comparison.table_model import MEASURED, Column, Figure, Layout, Note, Row
from csot.runs.accuracies import HELD_OUT

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
    """For each group of runs, the settings in which it differs from the others, in words."""
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
