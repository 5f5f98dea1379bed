"""compare.html: tables sorted as on the terminal, and curves as SVG, in one file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from csot.figures.comparison.comparison import Comparison, row_texts
from csot.figures.comparison.sweep_page import sweep_panels
from csot.figures.comparison.table_formats import page_environment
from csot.figures.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Tick, nice_ticks

MANY = 6
"""Methods from which each also gets a small panel of its own."""
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
    """One noise. ``others`` is the range of all methods as an outline."""

    noise: str
    curves: list[Curve]
    others: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]


def comparison_page(comparison: Comparison, out: Path, command: str, curves: dict[str, str]) -> str:
    """``curves`` are columns of metrics.csv and their titles."""
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
    """A panel for each noise, all on the same scale; empty where no run measured ``column``."""
    shown = {
        key: 100 * frame.set_index("epoch")[column].dropna()
        for key, frame in histories.items()
        if column in frame and frame[column].notna().any()
    }
    if not shown:
        return []
    values = np.concatenate([series.to_numpy() for series in shown.values()])
    epochs = np.concatenate([series.index.to_numpy() for series in shown.values()])
    y_ticks = nice_ticks(float(values.min()), float(values.max()))
    x_ticks = nice_ticks(float(epochs.min()), float(epochs.max()), whole=True, inside=True)
    low, high = y_ticks[0], y_ticks[-1]
    start, end = float(epochs.min()), max(float(epochs.max()), float(epochs.min()) + 1)

    def x(epoch: float) -> float:
        return round(LEFT + (epoch - start) / (end - start) * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    def path(series: pd.Series[Any]) -> str:
        points = zip(series.index.tolist(), series.tolist(), strict=True)
        return " ".join(f"{x(epoch)},{y(value)}" for epoch, value in points)

    def outline(joined: pd.DataFrame) -> str:
        return f"{path(joined.max(axis=1))} {path(joined.min(axis=1)[::-1])}"

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
                outline(pd.concat(means, axis=1).sort_index()),
                [Tick(x(tick), f"{tick:g}") for tick in x_ticks],
                [Tick(y(tick), f"{tick:g}") for tick in y_ticks],
            )
        )
    return panels


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
