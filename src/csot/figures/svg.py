"""Sizes and ticks of the charts that a page draws as SVG."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WIDTH, HEIGHT = 460, 250
LEFT, RIGHT, TOP, BOTTOM = 40, 8, 10, 26
TICKS = 5


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


def nice_ticks(
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
