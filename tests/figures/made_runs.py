"""Finished runs written by hand: a few rows, known numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from csot.runs import Run
from csot.runs.findings import findings_table
from csot.runs.truth import write_truth

NAMES = ["ape", "bee", "cat"]
TRUE = [0, 0, 0, 1, 1, 1, 2, 2, 2, 2]
GIVEN = [0, 1, 0, 1, 1, 2, 2, 2, 0, -1]
CORRECTED = [0, 0, 0, 1, 1, 2, 2, 2, 2, 2]
SCORE = [0.9, 0.1, 0.8, 0.9, 0.7, 0.4, 0.9, 0.95, 0.1, np.nan]
ISSUE = [False, True, False, False, True, False, False, False, True, False]
CONFIDENCE = [0.95, 0.9, 0.85, 0.92, 0.55, 0.52, 0.97, 0.99, 0.9, 0.4]
MATRIX = [[0.7, 0.3, 0.0], [0.0, 0.6, 0.4], [0.3, 0.0, 0.7]]


def labels(codes: list[int]) -> np.ndarray[Any, Any]:
    return np.array([*NAMES, None], dtype=object)[codes]


def made_run(
    path: Path, *, truth: bool = True, verified: int = 0, summary: dict[str, Any] | None = None
) -> Run:
    """Ten rows, three of them wrong and one without a label; one flag is false."""
    run = Run.create(path)
    status = np.where(np.array(CORRECTED) == np.array(GIVEN), "clean", "corrected")
    status[-1] = "uncertain"
    note = np.array(["verified" if row < verified else "" for row in range(10)], dtype=object)
    findings = findings_table(
        pd.Index([f"row {row}" for row in range(10)], dtype=object),
        given=labels(GIVEN),
        predicted=labels(CORRECTED),
        corrected=labels(CORRECTED),
        is_issue=ISSUE,
        score=np.array(SCORE),
        confidence=np.array(CONFIDENCE),
        status=status.astype(object),
        note=note,
        reason=np.full(10, "", dtype=object),
    )
    run.write_findings(findings)
    if truth:
        write_truth(run, findings.index, list(labels(TRUE)))
    run.write_summary(
        {
            "n_rows": 10,
            "class_names": NAMES,
            "noise_matrix": MATRIX,
            "noise_rate": 0.3,
            "noise_rate_interval": [0.2, 0.45],
            **(summary or {}),
        }
    )
    return run


def training_run(
    path: Path,
    method: str = "csot",
    *,
    noise: str = "sym:0.5",
    seed: int = 0,
    last: float = 0.9,
    seconds: float = 10.0,
    settings: dict[str, Any] | None = None,
    history: dict[str, list[float]] | None = None,
) -> Run:
    """A run of four epochs; a warm-up, two epochs of stage one, and one of stage two."""
    run = made_run(
        path,
        summary={
            "method": method,
            "noise": noise,
            "seed": seed,
            "epochs": 4,
            "seconds": seconds,
            "test_accuracy_last": last,
            "settings": {"settings": settings or {}},
        },
    )
    columns = {
        "epoch": [1, 2, 3, 4],
        "stage": [0, 1, 1, 2],
        "budget": [np.nan, 0.5, 0.75, 1.0],
        "selected": [np.nan, 4, 6, 8],
        "clean": [np.nan, 3, 4, 5],
        "corrected": [np.nan, 1, 2, 3],
        "clean_accuracy": [np.nan, 0.8, 0.9, 1.0],
        "corrected_accuracy": [np.nan, 0.5, 0.6, 0.7],
        "clean_recall": [np.nan, 0.3, 0.5, 0.6],
        "relabel_seconds": [0.0, 0.5, 0.5, 1.0],
        "seconds": [seconds * share for share in (0.1, 0.4, 0.7, 1.0)],
    }
    pd.DataFrame({**columns, **(history or {})}).to_csv(path / "metrics.csv", index=False)
    return run
