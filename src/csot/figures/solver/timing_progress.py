"""Progress of the timing table: minutes pass within one cell, and cells differ a thousandfold."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

OnStep: TypeAlias = Callable[[str, int, int], None]
"""Called with the name of a stage, how much of it is done, and how much there is."""
Place: TypeAlias = tuple[int, int, str]
"""Rows, classes and method."""

STAGE = "timing, in seconds"
EVERY = 1.0
"""Seconds between two calls."""
NANOSECONDS = {"VDA": 30_000.0, "ESI": 3_000.0, "csot": 500.0, "csot_float32": 250.0}
"""Per entry of the plan, until a cell of that method has been measured."""
TELLING = 100_000
"""Least entries of a cell from which larger ones are estimated; below, compiling dominates."""
QUICK_NANOSECONDS = {"VDA": 1_000.0, "ESI": 300.0}


class TimingProgress:
    """Tells `on_step` once per second how many seconds of how many have passed.

    The seconds still to come are those per entry of the largest cell that the method has had.
    """

    def __init__(self, places: Sequence[Place], quick: bool, on_step: OnStep) -> None:
        self._left, self._on_step = list(places), on_step
        self._per_entry = {
            method: 1e-9 * nanoseconds
            for method, nanoseconds in (NANOSECONDS | (QUICK_NANOSECONDS if quick else {})).items()
        }
        self._start = time.perf_counter()

    @contextmanager
    def measuring(self, place: Place) -> Iterator[None]:
        """While one cell is measured, which is then no longer to come."""
        began = time.perf_counter()
        over = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(began, over), daemon=True)
        ticker.start()
        try:
            yield
        finally:
            over.set()
            ticker.join()
        rows, classes, method = place
        if rows * classes >= TELLING:
            self._per_entry[method] = (time.perf_counter() - began) / (rows * classes)
        self._left.remove(place)

    def _tick(self, began: float, over: threading.Event) -> None:
        while True:
            now = time.perf_counter()
            expected, *others = (
                rows * classes * self._per_entry[method] for rows, classes, method in self._left
            )
            # A cell that takes longer than expected is nearly done all the time.
            to_come = max(expected - (now - began), 0.05 * expected) + sum(others)
            done = now - self._start
            self._on_step(STAGE, round(done), round(done + to_come))
            if over.wait(EVERY):
                return
