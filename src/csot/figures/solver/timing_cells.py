"""Measure the paper's timing table: vanilla Dykstra, scaling, and our own method, size by size."""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from csot._core.files import read_json, write_text
from csot.figures.paper_numbers import paper_solver_seconds
from csot.figures.solver.timing_progress import OnStep, TimingProgress
from csot.ot.numerics import ConvergenceWarning
from csot.ot.solve import solve

VDA, ESI, OURS, OURS32 = "VDA", "ESI", "csot", "csot_float32"
OUTER, INNER = 10, 100
"""Iterations of the paper, all of which VDA and ESI run."""
OPTIONS: dict[str, dict[str, Any]] = {
    VDA: {"method": "dykstra", "inner_iterations": INNER, "max_outer": OUTER, "tolerance": 0},
    ESI: {"method": "scaling", "inner_iterations": INNER, "max_outer": OUTER, "tolerance": 0},
    OURS: {},
    OURS32: {},
}
"""Arguments of `csot.solve`: 10 x 100 iterations as in the paper, and our defaults."""
FIXED = (VDA, ESI)
PAPER = paper_solver_seconds()
"""Seconds of VDA and ESI by (N, C), as published, on an A100."""
FEATURES = 512
BUDGET = 0.3
REPEATS = 3
LONG = 10.0
"""Seconds from which one measurement is enough."""
QUICK_SECONDS = 1.0
"""Time limit of a quick measurement."""
FEWEST, LEAD = 5, 2
"""Least number of iterations that a quick measurement times, after this many others."""
LARGEST = 1 << 20
"""Bytes of the file of kept measurements."""


@dataclass(frozen=True)
class Cell:
    """One measurement: the best of the repeats."""

    rows: int
    classes: int
    method: str
    seconds: float
    repeats: int
    inner_iterations: int
    """That the seconds are for."""
    measured_iterations: int
    """That were run; fewer where the seconds of the others were extrapolated."""
    dtype: str
    clock: str
    """cpu or wall."""
    machine: str
    threads: int
    torch: str

    @property
    def is_scaled(self) -> bool:
        return self.measured_iterations < self.inner_iterations


WALL = ("wall", time.perf_counter)


def timing_problem(rows: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Predictions, features and labels as a network trained on noisy labels gives them.

    Logits favour the true class by a random margin, features cluster around the class, and 30 % of
    the labels are random.
    """
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randint(0, classes, (rows,), generator=generator)
    margin = 6 * torch.rand(rows, generator=generator)
    logits = 2 * torch.randn(rows, classes, generator=generator)
    logits[torch.arange(rows), truth] += margin
    centres = torch.randn(classes, FEATURES, generator=generator)
    features = centres[truth] + 2 * torch.randn(rows, FEATURES, generator=generator)
    anything = torch.randint(0, classes, (rows,), generator=generator)
    labels = torch.where(torch.rand(rows, generator=generator) < 0.3, anything, truth)
    return logits.softmax(-1), features, labels


def measure(
    sizes: Sequence[tuple[int, int]],
    *,
    kept: Path | None = None,
    repeats: int = REPEATS,
    quick: bool = False,
    on_cell: Callable[[Cell], None] = lambda cell: None,
    on_step: OnStep = lambda stage, done, total: None,
) -> list[Cell]:
    """Measure what `kept` does not hold yet, and keep it there: an interruption loses one cell.

    Measurements of another machine, thread count or version of torch are not taken over, and
    extrapolated ones only if `quick`.
    """
    known = {
        (c.rows, c.classes, c.method): c
        for c in _read(kept)
        if _is_of_here(c) and (quick or not c.is_scaled)
    }
    places = list(_cheapest_first(sizes))
    progress = TimingProgress([place for place in places if place not in known], quick, on_step)
    found = {}
    for place in places:
        if place not in known:
            with progress.measuring(place):
                known[place] = _measure(*place, repeats, quick)
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                write_text(kept, json.dumps([asdict(one) for one in known.values()], indent=1))
        found[place] = known[place]
        on_cell(known[place])
    return [found[(*size, method)] for size in sizes for method in OPTIONS]


def _cheapest_first(sizes: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    for rows, classes in sorted(sizes, key=lambda size: size[0] * size[1]):
        for method in (OURS32, OURS, ESI, VDA):
            yield rows, classes, method


def _measure(rows: int, classes: int, method: str, repeats: int, quick: bool) -> Cell:
    dtype = torch.float32 if method == OURS32 else torch.float64
    probs, features, labels = timing_problem(rows, classes)
    probs, features = probs.to(dtype), features.to(dtype)
    # One thread is measured in its own time: other programs on the machine do not count.
    clock, now = ("cpu", time.process_time) if torch.get_num_threads() == 1 else WALL

    def seconds_of(**options: Any) -> tuple[float, int]:
        start = now()
        plan = solve(probs, features=features, labels=labels, budget=BUDGET, **options)
        return now() - start, plan.inner_iterations

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if quick and method in FIXED:
            found = _extrapolated(seconds_of, OPTIONS[method])
        else:
            # The first call of ours compiles, that of the others is like any other.
            if method not in FIXED:
                seconds_of()
            found = _best(seconds_of, OPTIONS[method], 1 if quick else repeats)
    name = str(dtype).rpartition(".")[2]
    return Cell(rows, classes, method, *found, name, clock, *here())


def _best(
    seconds_of: Callable[..., tuple[float, int]], options: dict[str, Any], repeats: int
) -> tuple[float, int, int, int]:
    """Seconds, repeats, and iterations, all of which were measured."""
    best, done, iterations = float("inf"), 0, 0
    while done < repeats and not (done and best > LONG):
        seconds, iterations = seconds_of(**options)
        best, done = min(best, seconds), done + 1
    return best, done, iterations, iterations


def _extrapolated(
    seconds_of: Callable[..., tuple[float, int]], options: dict[str, Any]
) -> tuple[float, int, int, int]:
    """The same from few iterations, where all of them would take more than QUICK_SECONDS.

    Iterations cost the same each, and so do outer steps but for the first:
    T(o, i) = first + (o - 1) step + o i each.
    """

    def seconds(outer: int, inner: int) -> float:
        return seconds_of(**{**options, "max_outer": outer, "inner_iterations": inner})[0]

    seconds(1, 1)  # the very first call takes longer
    one, two = seconds(1, LEAD), seconds(2, LEAD)
    count = FEWEST
    each = (seconds(1, LEAD + count) - one) / count
    if (wanted := min(int(QUICK_SECONDS / max(each, 1e-9)), INNER)) > count:
        count = wanted
        each = (seconds(1, LEAD + count) - one) / count
    if OUTER * INNER * each <= QUICK_SECONDS:
        return _best(seconds_of, options, 1)
    step, first = max(two - one - LEAD * each, 0.0), max(one - LEAD * each, 0.0)
    total = first + (OUTER - 1) * step + OUTER * INNER * each
    return total, 1, OUTER * INNER, count


def here() -> tuple[str, int, str]:
    """Machine, threads and version of torch."""
    machine = f"{os.cpu_count()} cores {platform.machine()}"
    return machine, torch.get_num_threads(), str(torch.__version__)


def _is_of_here(cell: Cell) -> bool:
    return (cell.machine, cell.threads, cell.torch) == here()


def _read(kept: Path | None) -> list[Cell]:
    if kept is None or not kept.exists():
        return []
    try:
        return [Cell(**row) for row in read_json(kept, LARGEST)]
    except (TypeError, ValueError):
        return []  # of another version: measured again
