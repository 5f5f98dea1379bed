"""Geometry of the drawings; the template draws them."""

from __future__ import annotations

from dataclasses import dataclass
from unicodedata import east_asian_width

import numpy as np

from csot._core.array_types import Floats, Ints
from csot.report.confused_pairs import FAINT, ConfusionSummary

SHADES = 12
SHOWN_CLASSES = 100
LEAST_SHARE = 0.0005
PALEST = 0.1
"""Opacity that every shaded cell has."""
NAME_LIMIT = 50


@dataclass(frozen=True)
class AxisLabel:
    text: str
    title: str
    at: float


@dataclass(frozen=True)
class CellText:
    x: float
    y: float
    text: str
    strong: bool
    """Whether the shade is dark."""
    diagonal: bool


@dataclass(frozen=True)
class MatrixChart:
    """A heat map: one path per shade, so that ten thousand cells stay small."""

    classes: list[int]
    values: list[list[int]]
    """Ten-thousandths, or numbers of rows, for the read-out."""
    cell: int
    font: float
    left: float
    top: float
    width: float
    height: float
    slanted: bool
    shades: list[tuple[float, str]]
    diagonal: str
    labels: list[AxisLabel]
    texts: list[CellText]
    hidden: int


@dataclass(frozen=True)
class HistogramBar:
    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True)
class HistogramChart:
    status: str
    total: int
    peak: int
    bars: list[HistogramBar]


def matrix_chart(confused: ConfusionSummary, shown: Ints, names: list[str]) -> MatrixChart:
    """Draw the matrix of the classes `shown` among `names`."""
    part, counted = confused.cells, confused.kind == "found"
    size = len(shown)
    cell = 46 if size <= 12 else 38 if size <= 20 else 22 if size <= 45 else 13
    font = 13.0 if cell > 30 else 12.0 if cell > 20 else 10.0
    short = [_short(names[k]) for k in shown]
    longest = max(map(_width, short), default=1)
    reach = 12 + longest * font
    slanted = longest * font > cell - 6
    top = (reach * 0.71 + font if cell > 30 else reach) if slanted else font + 14
    overhang = reach * 0.72 if slanted and cell > 30 else 8
    unit = 1 if counted else 10_000
    part = part if counted else np.clip(part, 0, 1)
    shades, diagonal = _shades(part, cell, counted)
    return MatrixChart(
        classes=shown.tolist(),
        values=np.rint(part * unit).astype(int).tolist(),
        cell=cell,
        font=font,
        left=round(reach, 1),
        top=round(top, 1),
        width=round(reach + size * cell + overhang, 1),
        height=round(top + size * cell + 4, 1),
        slanted=slanted,
        shades=shades,
        diagonal=diagonal,
        labels=[
            AxisLabel(text, names[k], (i + 0.5) * cell)
            for i, (text, k) in enumerate(zip(short, shown, strict=True))
        ],
        texts=_texts(part, cell, counted) if cell > 30 else [],
        hidden=len(names) - size,
    )


def histogram_charts(counts: dict[str, list[int]], width: int, height: int) -> list[HistogramChart]:
    """One small chart per status, each with a scale of its own: clean rows would dwarf the rest."""
    charts = []
    for status, values in counts.items():
        peak = max(values, default=0)
        step = width / len(values)
        bars = []
        for i, value in enumerate(values):
            if value:
                tall = max(value / peak * height, 1.5)
                title = f"{i / len(values):.2f} to {(i + 1) / len(values):.2f}: {value:,} rows"
                bars.append(
                    HistogramBar(
                        round(i * step + 0.5, 2), round(height - tall, 2), step - 1, tall, title
                    )
                )
        charts.append(HistogramChart(status, sum(values), peak, bars))
    return charts


def _strength(matrix: Floats, counted: bool) -> Floats:
    """Shade of each cell off the diagonal, relative to the strongest."""
    off: Floats = matrix * (1 - np.eye(len(matrix)))
    return np.divide(off, max(float(off.max(initial=0.0)), 1.0 if counted else FAINT))


def _shades(matrix: Floats, cell: int, counted: bool) -> tuple[list[tuple[float, str]], str]:
    side = cell - (2 if cell > 30 else 1)
    paths: dict[int, list[str]] = {}
    level = np.clip(np.ceil(_strength(matrix, counted) * SHADES).astype(int), 0, SHADES)
    for i, j in np.argwhere((level > 0) & (matrix >= LEAST_SHARE)).tolist():
        paths.setdefault(int(level[i, j]), []).append(_square(i, j, cell, side))
    diagonal = "".join(_square(i, i, cell, side) for i in range(len(matrix)))
    shades = [(round(PALEST + (1 - PALEST) * k / SHADES, 3), "".join(paths[k])) for k in paths]
    return sorted(shades), diagonal


def _texts(matrix: Floats, cell: int, counted: bool) -> list[CellText]:
    texts = []
    strength = _strength(matrix, counted)
    for i, j in np.argwhere(matrix >= LEAST_SHARE).tolist():
        value = matrix[i, j] * (1 if counted else 100)
        text = f"{value:,.0f}" if counted or value >= 9.95 else f"{value:.1f}"
        strong = bool(strength[i, j] > 0.55)
        texts.append(CellText((j + 0.5) * cell, (i + 0.5) * cell, text, strong, i == j))
    return texts


def _square(i: int, j: int, cell: int, side: int) -> str:
    return f"M{j * cell} {i * cell}h{side}v{side}h-{side}z"


def _width(text: str) -> float:
    """Width in units of the font size; Chinese, Japanese and Korean characters count twice."""
    return sum(1.0 if east_asian_width(letter) in "WF" else 0.65 for letter in text)


def _short(name: str) -> str:
    flat = " ".join(name.split()) or repr(name)
    return flat if len(flat) <= NAME_LIMIT else flat[: NAME_LIMIT - 1] + "…"
