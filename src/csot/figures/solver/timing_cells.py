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
from csot.figures.paper import paper_solver_seconds
from csot.ot.numerics import ConvergenceWarning
from csot.ot.solve import solve

VDA, ESI, OURS = "VDA", "ESI", "csot"
OPTIONS: dict[str, dict[str, Any]] = {
    VDA: {"method": "dykstra", "inner_iterations": 100, "max_outer": 10, "tolerance": 0},
    ESI: {"method": "scaling", "inner_iterations": 100, "max_outer": 10, "tolerance": 0},
    OURS: {},
}
"""Arguments of `csot.solve`: 10 x 100 iterations as in the paper, and our defaults."""
PAPER = paper_solver_seconds()
"""Seconds of VDA and ESI by (N, C), as published, on an A100."""
QUICK = tuple(size for size in PAPER if size[0] * size[1] <= 250_000)
"""Sizes that take seconds."""
FEATURES = 512
BUDGET = 0.3
REPEATS = 3
LONG = 10.0
"""Seconds from which one measurement is enough."""
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
    threads: int
    machine: str
    torch: str


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
    on_cell: Callable[[Cell], None] = lambda cell: None,
) -> list[Cell]:
    """Measure what `kept` does not hold yet, and keep it there: an interruption loses one cell.

    Measurements of another machine, thread count or version of torch are not taken over.
    """
    known = {(c.rows, c.classes, c.method): c for c in _read(kept) if _is_of_here(c)}
    found = []
    for size, method in _cheapest_first(sizes):
        cell = known.get((*size, method))
        if cell is None:
            cell = known[(*size, method)] = _measure(*size, method, repeats)
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                write_text(kept, json.dumps([asdict(one) for one in known.values()], indent=1))
        found.append(cell)
        on_cell(cell)
    order = {(*size, method): None for size in sizes for method in OPTIONS}
    by_place = {(cell.rows, cell.classes, cell.method): cell for cell in found}
    return [by_place[place] for place in order]


def _cheapest_first(sizes: Sequence[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], str]]:
    for size in sorted(sizes, key=lambda size: size[0] * size[1]):
        for method in (OURS, ESI, VDA):
            yield size, method


def _measure(rows: int, classes: int, method: str, repeats: int) -> Cell:
    probs, features, labels = timing_problem(rows, classes)
    best, done, iterations = float("inf"), 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # The first call of ours compiles, that of the others is like any other.
        if method == OURS:
            solve(probs, features=features, labels=labels, budget=BUDGET)
        while done < repeats and not (done and best > LONG):
            start = time.perf_counter()
            plan = solve(probs, features=features, labels=labels, budget=BUDGET, **OPTIONS[method])
            best = min(best, time.perf_counter() - start)
            done, iterations = done + 1, plan.inner_iterations
    machine, threads, version = _here()
    return Cell(rows, classes, method, best, done, iterations, threads, machine, version)


def _here() -> tuple[str, int, str]:
    machine = f"{os.cpu_count()} cores {platform.machine()}"
    return machine, torch.get_num_threads(), str(torch.__version__)


def _is_of_here(cell: Cell) -> bool:
    return (cell.machine, cell.threads, cell.torch) == _here()


def _read(kept: Path | None) -> list[Cell]:
    if kept is None or not kept.exists():
        return []
    try:
        return [Cell(**row) for row in read_json(kept, LARGEST)]
    except (TypeError, ValueError):
        return []  # of another version: measured again
