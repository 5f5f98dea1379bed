"""Charts of a sweep for compare.html: mean and deviation over the values of a setting."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from csot.figures.svg import BOTTOM, HEIGHT, LEFT, TOP, WIDTH, Tick, nice_ticks

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
    """One noise; ``label_y`` is where its name does not hide another one."""

    noise: str
    points: list[Point]
    label_y: float

    @property
    def path(self) -> str:
        return " ".join(f"{point.x},{point.y}" for point in self.points)


@dataclass(frozen=True)
class SweepPanel:
    title: str
    lines: list[Line]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    label_x: float


def sweep_panels(sweep: pd.DataFrame, measure: str = "last") -> list[SweepPanel]:
    """A chart for each setting and method; values are equally spaced. Empty without a sweep."""
    if not len(sweep):
        return []
    return [
        _panel(f"{method}: {setting}", group, measure)
        for (setting, method), group in sweep.groupby(["setting", "method"], sort=False)
    ]


def _panel(title: str, group: pd.DataFrame, measure: str) -> SweepPanel:
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
        title,
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
