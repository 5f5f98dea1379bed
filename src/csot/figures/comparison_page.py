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
from jinja2 import Environment, PackageLoader, StrictUndefined

from csot.figures.comparison import Comparison, row_texts

WIDTH, HEIGHT = 460, 250
LEFT, RIGHT, TOP, BOTTOM = 40, 8, 10, 26
TICKS = 5
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
class Tick:
    at: float
    text: str


@dataclass(frozen=True)
class Panel:
    noise: str
    curves: list[Curve]
    x_ticks: list[Tick]
    y_ticks: list[Tick]


def comparison_page(comparison: Comparison, out: Path, command: str, curves: dict[str, str]) -> str:
    """``curves`` are columns of metrics.csv and their titles."""
    ranked = {noise: comparison.ranked(noise) for noise in comparison.noises}
    first = next((table["method"].iloc[0] for table in ranked.values() if len(table)), "")
    figures = {title: draw_panels(comparison.histories, name) for name, title in curves.items()}
    environment = Environment(
        loader=PackageLoader("csot.figures"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("compare.html").render(
        tables={noise: _rows(comparison, table, out) for noise, table in ranked.items()},
        figures={title: panels for title, panels in figures.items() if panels},
        methods=list(ranked[comparison.noises[0]]["method"]) if ranked else [],
        highlighted=first,
        command=command,
        seeds=sorted(set(comparison.cells["seed"])),
        size={"width": WIDTH, "height": HEIGHT, "left": LEFT, "bottom": HEIGHT - BOTTOM},
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
    y_ticks = _nice_ticks(float(values.min()), float(values.max()))
    x_ticks = _nice_ticks(float(epochs.min()), float(epochs.max()), whole=True, inside=True)
    low, high = y_ticks[0], y_ticks[-1]
    start, end = float(epochs.min()), max(float(epochs.max()), float(epochs.min()) + 1)

    def x(epoch: float) -> float:
        return round(LEFT + (epoch - start) / (end - start) * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    def path(series: pd.Series[Any]) -> str:
        points = zip(series.index.tolist(), series.tolist(), strict=True)
        return " ".join(f"{x(epoch)},{y(value)}" for epoch, value in points)

    panels = []
    for noise in dict.fromkeys(noise for _, noise, _ in shown):
        curves = []
        for method in dict.fromkeys(m for m, n, _ in shown if n == noise):
            runs = [series for (m, n, _), series in shown.items() if (m, n) == (method, noise)]
            joined = pd.concat(runs, axis=1).sort_index()
            mean, least, most = joined.mean(axis=1), joined.min(axis=1), joined.max(axis=1)
            band = f"{path(most)} {path(least[::-1])}" if len(runs) > 1 else ""
            curves.append(Curve(method, path(mean), band, float(mean.iloc[-1])))
        panels.append(
            Panel(
                noise,
                curves,
                [Tick(x(tick), f"{tick:g}") for tick in x_ticks],
                [Tick(y(tick), f"{tick:g}") for tick in y_ticks],
            )
        )
    return panels


def _nice_ticks(
    low: float, high: float, *, whole: bool = False, inside: bool = False
) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten that cover the range, or lie ``inside`` it."""
    span = max(high - low, 1e-9 if not whole else 1.0)
    power = 10.0 ** np.floor(np.log10(span / TICKS))
    steps = [step * power for step in (1, 2, 5, 10)]
    step = next(step for step in steps if span / step <= TICKS)
    step = max(step, 1.0) if whole else step
    first = np.ceil(low / step - 1e-9) if inside else np.floor(low / step + 1e-9)
    last = np.floor(high / step + 1e-9) if inside else np.ceil(high / step - 1e-9)
    last = max(last, first + (0 if inside else 1))
    return [float(round(number * step, 10)) for number in np.arange(first, last + 1)]


def _rows(comparison: Comparison, ranked: pd.DataFrame, out: Path) -> list[dict[str, Any]]:
    rows = []
    for place, (_, row) in enumerate(ranked.iterrows()):
        method, best, last, seconds = row_texts(row)
        links = [
            (seed, _link(folder, out))
            for (name, noise, seed), folder in comparison.places.items()
            if (name, noise) == (row["method"], row["noise"])
        ]
        rows.append(
            {
                "method": method,
                "best": best,
                "last": last,
                "seconds": seconds,
                "share": 0.0 if pd.isna(row["last_mean"]) else float(row["last_mean"]) / 100,
                "wins": place == 0 and not pd.isna(row["last_mean"]),
                "links": links,
            }
        )
    return rows


def _link(folder: Path, out: Path) -> str:
    """From the page to a run, so that the whole folder can be moved."""
    target = next((folder / name for name in LINKED if (folder / name).exists()), folder)
    return quote(Path(os.path.relpath(target, out)).as_posix())
