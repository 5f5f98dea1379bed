"""Seconds of csot and cleanlab side by side: the same process, in turn, best of n."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import torch
from cleanlab.classification import CleanLearning
from cleanlab.filter import find_label_issues

import csot
from cleaning.cells import Cell
from cleaning.measures import Record
from cleaning.tables import Table
from rivals.probe import cross_validate
from rivals.verdict import Scores

CLEANLAB = ("table", "mask", "mask_one_job")
"""What cleanlab can return, as csot a table with scores and suggestions, or a mask alone, by
default with several processes."""


def best_of(repeats: int, *jobs: Callable[[], object]) -> list[float]:
    """Shortest seconds of each job; jobs take turns, so that a busy spell hits all of them."""
    seconds = [float("inf")] * len(jobs)
    for _ in range(repeats):
        for position, job in enumerate(jobs):
            start = time.perf_counter()
            job()
            seconds[position] = min(seconds[position], time.perf_counter() - start)
    return seconds


def compare_speed(cell: Cell, repeats: int) -> Record:
    task = cell.task

    def probe() -> Scores:
        with torch.no_grad():
            return cross_validate(task.features, task.given, task.n_classes, task.seed).probs

    def cleaner() -> object:
        own = csot.LabelCleaner(random_state=task.seed, progress=False)
        return own.fit(task.features, task.given)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        probs = probe()
        issues = best_of(
            repeats,
            lambda: csot.find_label_issues(task.given, probs),
            lambda: CleanLearning().find_label_issues(labels=task.given, pred_probs=probs),
            lambda: find_label_issues(task.given, probs),
            lambda: find_label_issues(task.given, probs, n_jobs=1),
        )
        whole = best_of(repeats, cleaner, lambda: find_label_issues(task.given, probe(), n_jobs=1))
    return {
        "cell": cell.name,
        "shape": list(task.features.shape),
        "classes": task.n_classes,
        "threads": torch.get_num_threads(),
        "repeats": repeats,
        "find_label_issues": dict(zip(("csot", *CLEANLAB), issues, strict=True)),
        "cleaner": {"csot": whole[0], "cleanlab_with_probe": whole[1]},
    }


def speed_table(records: list[Record]) -> Table:
    rows = []
    for r in records:
        issues, whole = r["find_label_issues"], r["cleaner"]
        ratio = whole["csot"] / whole["cleanlab_with_probe"]
        rows.append([
            r["cell"], *(f"{issues[name]:.2f}" for name in ("csot", *CLEANLAB)),
            f"{issues['csot'] / issues['table']:.2f}",
            f"{whole['csot']:.1f}", f"{whole['cleanlab_with_probe']:.1f}", f"{ratio:.2f}",
        ])  # fmt: skip
    header = ["cell", "find_label_issues: csot", "cleanlab: table", "mask", "mask, one job",
              "csot / table (goal 1)", "LabelCleaner: csot", "cleanlab + probe",
              "ratio (goal 2)"]  # fmt: skip
    return Table("Seconds, best of n", header, rows)
