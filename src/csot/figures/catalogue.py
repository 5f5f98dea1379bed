"""Every figure by name: what it shows, what it is drawn from, and the function that makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from csot._core.errors import listed, nearest
from csot.figures.convergence import convergence
from csot.figures.couplings import couplings, epsilons
from csot.figures.drawing import Drawing
from csot.figures.mappings import mappings
from csot.figures.overview import overview
from csot.figures.timing import timing
from csot.figures.timing_cells import OPTIONS, PAPER, QUICK, Cell
from csot.runs.snapshots import Snapshot, read_snapshot

Needs = Literal["nothing", "snapshot", "training", "cleaning"]
"""What a figure is drawn from: computed; a training run's snapshot, or digits; runs."""


@dataclass(frozen=True)
class Request:
    """What a user asks for besides the name of a figure."""

    runs: tuple[Path, ...] = ()
    """Folders of runs, or folders that hold such."""
    truth: Path | None = None
    """CSV with the columns id and true_label."""
    epoch: int | None = None
    """Of the snapshot."""
    kept: Path | None = None
    """Folder in which long computations are kept."""
    quick: bool = False
    """Only the sizes that take seconds."""
    on_step: Callable[[str, int, int], None] = field(default=lambda stage, done, total: None)
    """Called with the name of a stage, how much of it is done, and how much there is."""

    def snapshot(self) -> Snapshot | None:
        """Of the first run, or None: digits are then used."""
        return read_snapshot(self.runs[0], self.epoch) if self.runs else None


@dataclass(frozen=True)
class Entry:
    """One figure of the catalogue."""

    about: str
    needs: Needs
    make: Callable[[Request], Drawing]


def _timing(request: Request) -> Drawing:
    sizes = QUICK if request.quick else tuple(PAPER)
    total, done = len(sizes) * len(OPTIONS), 0

    def on_cell(cell: Cell) -> None:
        nonlocal done
        done += 1
        request.on_step(f"{cell.method} ({cell.rows}, {cell.classes})", done, total)

    kept = None if request.kept is None else request.kept / "timing.json"
    return timing(sizes, kept=kept, on_cell=on_cell)


FIGURES: dict[str, Entry] = {
    "overview": Entry(
        "prediction, OT and structure-aware OT pseudo-labels on a toy problem",
        "nothing",
        lambda request: overview(request.snapshot()),
    ),
    "mappings": Entry(
        "CSOT's mapping of samples to classes at several budgets, on a t-SNE",
        "snapshot",
        lambda request: mappings(request.snapshot()),
    ),
    "couplings": Entry(
        "transposed coupling matrices at several budgets, with row and column sums",
        "snapshot",
        lambda request: couplings(request.snapshot()),
    ),
    "epsilons": Entry(
        "transposed coupling matrices at several weights of the entropy",
        "snapshot",
        lambda request: epsilons(request.snapshot()),
    ),
    "convergence": Entry(
        "the objective in the outer steps of generalised conditional gradient",
        "snapshot",
        lambda request: convergence(request.snapshot()),
    ),
    "timing": Entry(
        "the paper's timing table: VDA and ESI at 10 x 100 iterations, and csot", "nothing", _timing
    ),
}


def find_figure(name: str) -> Entry:
    """The entry of that name."""
    if name not in FIGURES:
        raise ValueError(
            f"figure {name!r} is unknown{nearest(name, FIGURES)}; there are "
            f"{listed(FIGURES, len(FIGURES))}"
        )
    return FIGURES[name]
