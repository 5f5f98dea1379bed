"""The paper's timing table with its algorithms as written, beside that of `csot figures timing`.

    OMP_NUM_THREADS=1 python benchmarks/timing.py

Two pairs of VDA (vanilla Dykstra, Algorithm S4) and ESI (scaling, Algorithm 1), each with the
paper's 10 x 100 iterations around Algorithm 2, all in float64 like the authors' code, which is
neither of them:

    as written   published.py: matrices as the paper prints them, dense similarity, no logarithms
    csot         `csot.solve` with method="dykstra" and method="scaling"

Every cell is kept as soon as it is measured (results/timing.json, results/timing_as_written.json),
so that the same command goes on where it stopped. Prints the table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console

from csot._core.files import write_text
from csot.figures.solver.timing_cells import (
    BUDGET,
    LONG,
    PAPER,
    Cell,
    here,
    measure,
    timing_problem,
)
from published import solve_published

RESULTS = Path(__file__).parent / "results"
AS_WRITTEN = {"VDA": True, "ESI": False}
"""Whether the inner problem is solved by Dykstra's algorithm."""


def measure_as_written(rows: int, classes: int, method: str, repeats: int) -> Cell:
    probs, features, labels = timing_problem(rows, classes)
    is_single = torch.get_num_threads() == 1
    now = time.process_time if is_single else time.perf_counter
    best, done = float("inf"), 0
    while done < repeats and not (done and best > LONG):
        start = now()
        solve_published(probs, features, labels, BUDGET, dykstra=AS_WRITTEN[method])
        best, done = min(best, now() - start), done + 1
    clock = "cpu" if is_single else "wall"
    return Cell(rows, classes, method, best, done, 1000, 1000, "float64", clock, *here())


def all_as_written(kept: Path, sizes: list[tuple[int, int]], repeats: int) -> list[Cell]:
    """One cell after the other; those in ``kept`` are not measured again."""
    known = [Cell(**row) for row in json.loads(kept.read_text())] if kept.exists() else []
    known = [cell for cell in known if (cell.machine, cell.threads, cell.torch) == here()]
    measured = {(cell.rows, cell.classes, cell.method) for cell in known}
    for size in sorted(sizes, key=lambda size: size[0] * size[1]):
        for method in ("ESI", "VDA"):
            if (*size, method) not in measured:
                known.append(measure_as_written(*size, method, repeats))
                write_text(kept, json.dumps([asdict(cell) for cell in known], indent=1))
                print(f"{method} as written {size}: {known[-1].seconds:.3g} s", flush=True)
    return known


def markdown(cells: list[Cell], as_written: list[Cell]) -> str:
    """One row per size; the paper's seconds of VDA and ESI are those of an A100."""
    ours = {(cell.rows, cell.classes, cell.method): cell.seconds for cell in cells}
    theirs = {(cell.rows, cell.classes, cell.method): cell.seconds for cell in as_written}
    lines = [
        "| (N, C) | VDA as written | ESI as written | VDA | ESI | csot (float32) | paper, A100 |",
        "|---|---|---|---|---|---|---|",
    ]
    for size in dict.fromkeys((cell.rows, cell.classes) for cell in cells):
        seconds = [theirs.get((*size, "VDA")), theirs.get((*size, "ESI"))]
        seconds += [ours[(*size, "VDA")], ours[(*size, "ESI")]]
        shown = ["" if value is None else written(value) for value in seconds]
        shown.append(f"{written(ours[(*size, 'csot')])} ({written(ours[(*size, 'csot_float32')])})")
        shown.append(", ".join(f"{value:.2f}" for value in PAPER[size]))
        # Sizes do not wrap in a narrow column.
        lines.append(f"| ({size[0]},&nbsp;{size[1]}) | {' | '.join(shown)} |")
    return "\n".join(lines)


def written(seconds: float) -> str:
    """Three digits, never as a power of ten."""
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.{max(0, 2 - exponent(seconds))}f}"


def exponent(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--largest", type=int, default=3000, help="leave out sizes of more rows")
    parser.add_argument("--repeats", type=int, default=3, help="of which the fastest counts")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON files")
    given = parser.parse_args()
    sizes = [size for size in PAPER if size[0] <= given.largest]
    cells = measure(
        sizes,
        kept=given.results / "timing.json",
        repeats=given.repeats,
        on_cell=lambda cell: print(
            f"{cell.method} {cell.rows, cell.classes}: {cell.seconds:.3g} s", flush=True
        ),
    )
    rest = all_as_written(given.results / "timing_as_written.json", sizes, given.repeats)
    Console().print(markdown(cells, rest), soft_wrap=True, highlight=False, markup=False)


if __name__ == "__main__":
    main()
