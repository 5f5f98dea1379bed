"""What every method is measured by. True labels are used here and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from cleaning.cells import Cell
from rivals.verdict import Labels, Mask, Scores, Verdict

Record = dict[str, Any]


def describe(cell: Cell) -> Record:
    return {
        "cell": cell.name,
        "kind": cell.kind,
        "features": cell.space,
        "seed": cell.task.seed,
        "rows": len(cell.truth),
        "true_rate": float(cell.wrong.mean()),
    }


def measure(
    cell: Cell,
    *,
    score: Scores,
    flagged: Mask,
    corrected: Labels,
    noise_rate: float | None,
    test: Labels | None,
    seconds: float | None,
) -> Record:
    wrong, given = cell.wrong, cell.task.given
    hits = int((flagged & wrong).sum())
    precision = hits / flagged.sum() if flagged.any() else None
    recall = hits / wrong.sum() if wrong.any() else None
    return {
        "ap": float(average_precision_score(wrong, -score)) if wrong.any() else None,
        "f1": 2 * hits / float(flagged.sum() + wrong.sum()) if wrong.any() else None,
        "precision": precision,
        "recall": recall,
        "right": float((corrected == cell.truth).mean()),
        "changed": float((corrected != given).mean()),
        "noise_rate": noise_rate,
        "noise_rate_error": None if noise_rate is None else noise_rate - float(wrong.mean()),
        "accuracy": None if test is None else float((test == cell.test_labels).mean()),
        "seconds": seconds,
    }


def measure_verdict(cell: Cell, verdict: Verdict) -> Record:
    return measure(
        cell,
        score=verdict.score,
        flagged=verdict.flagged,
        corrected=verdict.corrected(cell.task.given),
        noise_rate=verdict.noise_rate,
        test=verdict.test,
        seconds=verdict.seconds,
    )


def share_right(corrected: Labels, truth: Labels, rows: Mask) -> float:
    return float(np.mean(corrected[rows] == truth[rows]))
