"""Features of a mixed table, written down column by column with Python's own parts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from statistics import fmean, median, pstdev


def number_block(cells: Sequence[float | None]) -> tuple[list[float], list[float] | None]:
    """Standardised numbers with the median for missing ones, and the flag of missing ones."""
    present = [cell for cell in cells if cell is not None]
    filled = [median(present) if cell is None else cell for cell in cells]
    mean, deviation = fmean(filled), pstdev(filled)
    scaled = [(value - mean) / (deviation or 1.0) for value in filled]
    if len(present) == len(cells):
        return scaled, None
    return scaled, [float(cell is None) for cell in cells]


def category_block(cells: Sequence[str], rare: int) -> list[list[float]]:
    """One column per frequent category in the order of their names, and one for all others."""
    counts = Counter(cells)
    kept = sorted(name for name, count in counts.items() if count >= rare)
    columns = [[float(cell == name) for cell in cells] for name in kept]
    if len(kept) < len(counts):
        columns.append([float(cell not in kept) for cell in cells])
    return columns


def date_block(cells: Sequence[datetime | None]) -> tuple[list[float | None], list[list[float]]]:
    """Days since 1970, and half the sine and cosine of the time of year, week and day."""
    days: list[float | None] = [
        None if cell is None else (cell - datetime(1970, 1, 1)).total_seconds() / 86400
        for cell in cells
    ]
    cycles = [
        [0.0 if day is None else wave(2 * math.pi * (day / length)) / 2 for day in days]
        for length in (365.2425, 7.0, 1.0)
        for wave in (math.sin, math.cos)
    ]
    return days, cycles
