"""Every figure by name: what it shows, what it is drawn from, and the function that makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from csot._core.errors import listed, nearest
from csot.figures.drawing import Drawing
from csot.figures.records import find_runs
from csot.figures.solver.convergence import convergence
from csot.figures.solver.couplings import couplings, epsilons
from csot.figures.solver.mappings import mappings
from csot.figures.solver.overview import overview
from csot.figures.solver.timing import timing
from csot.figures.training.curves import curves, stages
from csot.figures.training.sensitivity import sensitivity
from csot.figures.training.times import epoch_time, total_time
from csot.figures.verdicts.confusion import confusion, noise_matrix
from csot.figures.verdicts.precision_recall import precision_recall
from csot.figures.verdicts.reliability import reliability
from csot.figures.verdicts.suspects import suspects
from csot.figures.verdicts.verified_rows import verified
from csot.runs.snapshots import Snapshot, read_snapshot, snapshot_epochs

Needs = Literal["nothing", "snapshot", "training", "run", "truth"]
"""What a figure is drawn from: nothing, it is computed; a snapshot of a training run, or digits;
training runs; runs of any kind; such runs and true labels."""

DemoGroup = Literal["methods", "transports", "kappa", "epsilon", "cleaning", "verified"]
"""Runs on digits that `csot.gallery` makes."""


@dataclass(frozen=True)
class Request:
    """What a user asks for besides the name of a figure."""

    runs: tuple[Path, ...] = ()
    """Folders of runs, or folders that contain runs."""
    truth: Path | None = None
    """CSV with the columns id and true_label."""
    epoch: int | None = None
    """Epoch of the snapshot."""
    kept: Path | None = None
    """Folder in which long computations are kept."""
    quick: bool = False
    """Measure only some of the iterations of the timing table, and scale the time up."""
    allow_outside: bool = False
    """Read pictures that lie outside of the data folder."""
    on_step: Callable[[str, int, int], None] = field(default=lambda stage, done, total: None)
    """Called with the name of a stage, how much of it is done, and how much there is."""

    def snapshot(self) -> Snapshot | None:
        """The snapshot of the first run that has one; None, if digits are to be used."""
        runs = [run.path for run in find_runs(self.runs)]
        kept = [run for run in runs if snapshot_epochs(run)]
        return read_snapshot((kept or runs)[0], self.epoch) if runs else None


@dataclass(frozen=True)
class Entry:
    """One figure of the catalogue."""

    about: str
    needs: Needs
    make: Callable[[Request], Drawing]
    demo: DemoGroup | None = None
    """What it is drawn from where the user gives no runs."""


def _timing(request: Request) -> Drawing:
    kept = None if request.kept is None else request.kept / "timing.json"
    return timing(kept=kept, quick=request.quick, on_step=request.on_step)


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
    "curves": Entry(
        "clean accuracy, corrected accuracy and clean recall over the epochs, by method",
        "training",
        lambda request: curves(request.runs),
        demo="methods",
    ),
    "transports": Entry(
        "the same for OT, SOT, COT and CSOT",
        "training",
        lambda request: curves(request.runs, name="transports"),
        demo="transports",
    ),
    "confusion": Entry(
        "confusion matrices: true against given, and against corrected labels",
        "truth",
        lambda request: confusion(request.runs, request.truth),
        demo="methods",
    ),
    "sensitivity-kappa": Entry(
        "test accuracy over the weight of the coherence",
        "training",
        lambda request: sensitivity(request.runs, "coherence"),
        demo="kappa",
    ),
    "sensitivity-epsilon": Entry(
        "test accuracy over the weight of the entropy",
        "training",
        lambda request: sensitivity(request.runs, "epsilon"),
        demo="epsilon",
    ),
    "stages": Entry(
        "budget, stages, and shares of labels selected, trusted and replaced, over the epochs",
        "training",
        lambda request: stages(request.runs),
        demo="methods",
    ),
    "epoch-time": Entry(
        "seconds per epoch, and the share of relabelling",
        "training",
        lambda request: epoch_time(request.runs),
        demo="methods",
    ),
    "total-time": Entry(
        "total training time by method, beside the paper's hours",
        "training",
        lambda request: total_time(request.runs),
        demo="methods",
    ),
    "precision-recall": Entry(
        "precision and recall of the wrong labels found, over the score",
        "truth",
        lambda request: precision_recall(request.runs, request.truth),
        demo="cleaning",
    ),
    "reliability": Entry(
        "how often corrected labels are right, by confidence",
        "truth",
        lambda request: reliability(request.runs, request.truth),
        demo="cleaning",
    ),
    "noise-matrix": Entry(
        "the estimated noise matrix, beside the true one where it is known",
        "run",
        lambda request: noise_matrix(request.runs[0], request.truth),
        demo="cleaning",
    ),
    "verified": Entry(
        "the effect of verified rows: noise rate and verdicts over their number",
        "truth",
        lambda request: verified(request.runs, request.truth),
        demo="verified",
    ),
    "suspects": Entry(
        "the most suspicious samples, with given and suggested label",
        "run",
        lambda request: suspects(
            request.runs[0], request.truth, allow_outside=request.allow_outside
        ),
        demo="cleaning",
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
