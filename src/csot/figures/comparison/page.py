"""compare.html: tables sorted as on the terminal, and curves as SVG, in one file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from csot.figures.comparison.comparison import Comparison, row_texts
from csot.figures.comparison.table_model import page_environment

WIDTH, HEIGHT = 460, 278
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 28, 42
"""Margins of a chart: the names of its axes stand above and below it."""
TICKS = 5


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


def nice_ticks(
    low: float, high: float, *, whole: bool = False, inside: bool = False
) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten that cover the range, or lie `inside` it."""
    span = max(high - low, 1e-9 if not whole else 1.0)
    power = 10.0 ** np.floor(np.log10(span / TICKS))
    steps = [step * power for step in (1, 2, 5, 10)]
    step = next(step for step in steps if span / step <= TICKS)
    step = max(step, 1.0) if whole else step
    first = np.ceil(low / step - 1e-9) if inside else np.floor(low / step + 1e-9)
    last = np.floor(high / step + 1e-9) if inside else np.ceil(high / step - 1e-9)
    last = max(last, first + (0 if inside else 1))
    return [float(round(number * step, 10)) for number in np.arange(first, last + 1)]


MANY = 6
"""Methods from which each also gets a small panel of its own."""
SELECTION = ("clean_accuracy", "corrected_accuracy", "clean_recall")
"""Columns of metrics.csv that a method has once it selects labels."""
LINKED = ("report.html", "curves.png")
"""What a run is linked to: the first of these that it has, else its folder."""


@dataclass(frozen=True)
class Curve:
    """One method in one panel: the mean over the seeds, and the range as an outline."""

    method: str
    line: str
    band: str
    last: float


@dataclass(frozen=True)
class Panel:
    """One noise. `others` is the range of all methods as an outline."""

    noise: str
    curves: list[Curve]
    absent: list[str]
    """Methods of the comparison without a curve."""
    others: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]


def comparison_page(comparison: Comparison, out: Path, command: str, curves: dict[str, str]) -> str:
    """`curves` are columns of metrics.csv and their titles."""
    ranked = {noise: comparison.ranked(noise) for noise in comparison.noises}
    first = next((table["method"].iloc[0] for table in ranked.values() if len(table)), "")
    figures = {title: draw_panels(comparison.histories, name) for name, title in curves.items()}
    shown = list(comparison.shown())
    return (
        page_environment()
        .get_template("compare.html")
        .render(
            titles=shown,
            legend=comparison.legend(),
            tables={noise: _rows(comparison, table, out) for noise, table in ranked.items()},
            figures={title: panels for title, panels in figures.items() if panels},
            starts=selection_starts(comparison.histories),
            methods=list(ranked[comparison.noises[0]]["method"]) if ranked else [],
            highlighted=first,
            command=command,
            seeds=sorted(set(comparison.cells["seed"])),
            size={"width": WIDTH, "height": HEIGHT, "left": LEFT, "bottom": HEIGHT - BOTTOM},
            many=MANY,
            sweeps=sweep_panels(comparison.sweep()),
        )
    )


def draw_panels(histories: Mapping[tuple[str, str, int], pd.DataFrame], column: str) -> list[Panel]:
    """A panel for each noise, all on the same scale; empty where no run measured `column`."""
    shown = {
        key: 100 * frame.set_index("epoch")[column].dropna()
        for key, frame in histories.items()
        if column in frame and frame[column].notna().any()
    }
    if not shown:
        return []
    values = np.concatenate([series.to_numpy() for series in shown.values()])
    # Of all runs: a curve that begins late is seen to begin late.
    epochs = np.concatenate([frame["epoch"].to_numpy() for frame in histories.values()])
    y_ticks = nice_ticks(float(values.min()), float(values.max()))
    x_ticks = nice_ticks(float(epochs.min()), float(epochs.max()), whole=True, inside=True)
    low, high = y_ticks[0], y_ticks[-1]
    start, end = float(epochs.min()), max(float(epochs.max()), float(epochs.min()) + 1)

    def x(epoch: float) -> float:
        return round(LEFT + (epoch - start) / (end - start) * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    def path(series: pd.Series[Any]) -> str:
        pairs = zip(series.index.tolist(), series.tolist(), strict=True)
        points = [f"{x(epoch)},{y(value)}" for epoch, value in pairs]
        # A line of one point is drawn as a dot only if it has an end.
        return " ".join(points * 2 if len(points) == 1 else points)

    def outline(joined: pd.DataFrame) -> str:
        return f"{path(joined.max(axis=1))} {path(joined.min(axis=1)[::-1])}"

    methods = dict.fromkeys(method for method, _, _ in histories)
    panels = []
    for noise in dict.fromkeys(noise for _, noise, _ in shown):
        curves = []
        means = []
        for method in dict.fromkeys(m for m, n, _ in shown if n == noise):
            runs = [series for (m, n, _), series in shown.items() if (m, n) == (method, noise)]
            joined = pd.concat(runs, axis=1).sort_index()
            mean = joined.mean(axis=1)
            band = outline(joined) if len(runs) > 1 else ""
            means.append(mean)
            curves.append(Curve(method, path(mean), band, float(mean.iloc[-1])))
        panels.append(
            Panel(
                noise,
                sorted(curves, key=lambda curve: -curve.last),
                [method for method in methods if method not in {c.method for c in curves}],
                outline(pd.concat(means, axis=1).sort_index()),
                [Tick(x(tick), f"{tick:g}") for tick in x_ticks],
                [Tick(y(tick), f"{tick:g}") for tick in y_ticks],
            )
        )
    return panels


def selection_starts(
    histories: Mapping[tuple[str, str, int], pd.DataFrame],
) -> dict[int, list[str]]:
    """Methods by the epoch of their first record of selected labels, where it is not the first."""
    starts: dict[str, int] = {}
    for (method, _, _), frame in histories.items():
        columns = [name for name in SELECTION if name in frame]
        recorded = frame.loc[frame[columns].notna().any(axis=1), "epoch"]
        if len(recorded) and recorded.iloc[0] > frame["epoch"].iloc[0]:
            starts[method] = min(int(recorded.iloc[0]), starts.get(method, sys.maxsize))
    found: dict[int, list[str]] = {}
    for method, epoch in sorted(starts.items(), key=lambda pair: pair[1]):
        found.setdefault(epoch, []).append(method)
    return found


def _rows(comparison: Comparison, ranked: pd.DataFrame, out: Path) -> list[dict[str, Any]]:
    names = list(comparison.shown().values())
    rows = []
    for place, (_, row) in enumerate(ranked.iterrows()):
        method, *cells, seconds = row_texts(row, names)
        links = [
            (seed, _link(folder, out))
            for (name, noise, seed), folder in comparison.places.items()
            if (name, noise) == (row["method"], row["noise"])
        ]
        wins = place == 0 and not pd.isna(row["last_mean"])
        rows.append(
            {
                "method": method,
                "cells": [
                    (text, wins and name == "last") for text, name in zip(cells, names, strict=True)
                ],
                "seconds": seconds,
                "links": links,
            }
        )
    return rows


def _link(folder: Path, out: Path) -> str:
    """From the page to a run, so that the whole folder can be moved."""
    target = next((folder / name for name in LINKED if (folder / name).exists()), folder)
    return quote(Path(os.path.relpath(target, out)).as_posix())


LABEL = 104
"""Pixels at the right for the name of a line."""
LABEL_HEIGHT = 13


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    low: float
    high: float
    text: str


@dataclass(frozen=True)
class Line:
    """One noise; `label_y` is where its name does not hide another one."""

    noise: str
    points: list[Point]
    label_y: float

    @property
    def path(self) -> str:
        return " ".join(f"{point.x},{point.y}" for point in self.points)


@dataclass(frozen=True)
class SweepPanel:
    title: str
    setting: str
    lines: list[Line]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    label_x: float


def sweep_panels(sweep: pd.DataFrame, measure: str = "last") -> list[SweepPanel]:
    """A chart for each setting and method; values are equally spaced. Empty without a sweep."""
    if not len(sweep):
        return []
    return [
        _panel(str(method), str(setting), group, measure)
        for (setting, method), group in sweep.groupby(["setting", "method"], sort=False)
    ]


def _panel(method: str, setting: str, group: pd.DataFrame, measure: str) -> SweepPanel:
    mean, spread = group[f"{measure}_mean"], group[f"{measure}_sd"].fillna(0.0)
    ticks = nice_ticks(float((mean - spread).min()), float((mean + spread).max()))
    values = list(dict.fromkeys(group["value"]))
    step = (WIDTH - LEFT - LABEL) / len(values)

    def x(value: str) -> float:
        return round(LEFT + step * (values.index(value) + 0.5), 1)

    def y(number: float) -> float:
        share = (number - ticks[0]) / (ticks[-1] - ticks[0])
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    lines = []
    for noise, rows in group.groupby("noise", sort=False):
        points = [
            Point(x(value), y(m), y(m - s), y(m + s), f"{noise}, {value}: {m:.2f} ± {s:.2f}")
            for value, m, s in zip(rows["value"], mean[rows.index], spread[rows.index], strict=True)
        ]
        lines.append(Line(str(noise), points, points[-1].y))
    return SweepPanel(
        f"{method}: {setting}",
        setting,
        _apart(lines),
        [Tick(x(value), value) for value in values],
        [Tick(y(tick), f"{tick:g}") for tick in ticks],
        round(WIDTH - LABEL + 4, 1),
    )


def _apart(lines: list[Line]) -> list[Line]:
    """Labels from top to bottom, each below the one before it."""
    placed: list[Line] = []
    for line in sorted(lines, key=lambda line: line.label_y):
        least = placed[-1].label_y + LABEL_HEIGHT if placed else line.label_y
        placed.append(Line(line.noise, line.points, max(line.label_y, least)))
    return placed
