"""All rivals on one task, sharing what they share: the cross-validated probe and the neighbours."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from rivals.aum import judge_by_aum
from rivals.by_probe import judge_by_probe
from rivals.knn_vote import judge_by_vote
from rivals.neighbours import Neighbours
from rivals.probe import CrossValidated, cross_validate
from rivals.simifeat import judge_by_simifeat
from rivals.verdict import Task, Verdict

VOTES = (15, 50)
BY_PROBE = ("cleanlab", "self_confidence", "normalized_margin", "probe")
NAMES = (*BY_PROBE, "knn15", "knn50", "aum", "simifeat_vote", "simifeat_rank")


def judge_all(
    task: Task, own: Neighbours, test: Neighbours, progress: Callable[[str], None]
) -> tuple[dict[str, Verdict], CrossValidated]:
    """One verdict for each of ``NAMES``, and the fitted probe."""
    with torch.no_grad():
        start = time.perf_counter()
        fitted = cross_validate(task.features, task.given, task.n_classes, task.seed)
        seconds = time.perf_counter() - start
        progress(f"probe {seconds:.1f} s")
        verdicts = judge_by_probe(task, fitted, seconds)
        progress("cleanlab")
        for k in VOTES:
            verdicts[f"knn{k}"] = judge_by_vote(task, own, test, k)
        verdicts["aum"] = judge_by_aum(task, fitted)
        progress(f"aum {verdicts['aum'].seconds:.1f} s")
    # HOC differentiates, so gradients stay on here.
    verdicts |= judge_by_simifeat(task, own, fitted)
    progress(f"simifeat {verdicts['simifeat_rank'].seconds:.1f} s")
    return verdicts, fitted
