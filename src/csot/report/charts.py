"""Geometry of the drawings; the template draws them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from csot.report.coded import Floats, Ints

SHADES = 12
SHOWN_CLASSES = 100
LEAST_SHARE = 0.0005


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
    """On a dark shade."""
    diagonal: bool


@dataclass(frozen=True)
class MatrixChart:
    """A heat map: one path per shade, so that ten thousand cells stay small."""

    classes: list[int]
    values: list[list[int]]
    """Ten-thousandths, for the read-out."""
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
class Bar:
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
    bars: list[Bar]


def matrix_chart(part: Floats, shown: Ints, names: list[str]) -> MatrixChart:
    """``part``: rows true, columns given, of the classes ``shown`` among ``names``."""
    size = len(shown)
    cell = 46 if size <= 12 else 38 if size <= 20 else 20 if size <= 45 else 11
    font = 13.0 if cell > 30 else 11.0 if cell == 20 else 8.5
    short = [_short(names[k], 16 if cell > 11 else 14) for k in shown]
    longest = max((len(text) for text in short), default=1)
    reach = 12 + longest * font * 0.6
    slanted = longest * font * 0.62 > cell - 6
    top = reach * (0.75 if cell > 30 else 1.0) if slanted else font + 14
    overhang = reach * 0.72 if slanted and cell > 30 else 8
    shades, diagonal = _shades(part, cell)
    return MatrixChart(
        classes=shown.tolist(),
        values=np.rint(np.clip(part, 0, 1) * 10_000).astype(int).tolist(),
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
        texts=_texts(part, cell) if cell > 30 else [],
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
                    Bar(round(i * step + 0.5, 2), round(height - tall, 2), step - 1, tall, title)
                )
        charts.append(HistogramChart(status, sum(values), peak, bars))
    return charts


def _strength(matrix: Floats) -> Floats:
    """Shade of each cell off the diagonal, relative to the strongest."""
    off: Floats = matrix * (1 - np.eye(len(matrix)))
    return np.divide(off, max(float(off.max(initial=0.0)), 0.02))


def _shades(matrix: Floats, cell: int) -> tuple[list[tuple[float, str]], str]:
    side = cell - (2 if cell > 30 else 1)
    paths: dict[int, list[str]] = {}
    level = np.clip(np.ceil(_strength(matrix) * SHADES).astype(int), 0, SHADES)
    for i, j in np.argwhere((level > 0) & (matrix >= LEAST_SHARE)).tolist():
        paths.setdefault(int(level[i, j]), []).append(_square(i, j, cell, side))
    diagonal = "".join(_square(i, i, cell, side) for i in range(len(matrix)))
    return [(round(k / SHADES, 3), "".join(paths[k])) for k in sorted(paths)], diagonal


def _texts(matrix: Floats, cell: int) -> list[CellText]:
    texts = []
    strength = _strength(matrix)
    for i, j in np.argwhere(matrix >= 0.0005).tolist():
        share = matrix[i, j] * 100
        text = f"{share:.0f}" if share >= 9.95 else f"{share:.1f}"
        strong = bool(strength[i, j] > 0.55)
        texts.append(CellText((j + 0.5) * cell, (i + 0.5) * cell, text, strong, i == j))
    return texts


def _square(i: int, j: int, cell: int, side: int) -> str:
    return f"M{j * cell} {i * cell}h{side}v{side}h-{side}z"


def _short(name: str, limit: int) -> str:
    flat = " ".join(name.split()) or repr(name)
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
