"""csot on one cell: ``LabelCleaner`` on features, ``find_label_issues`` on probabilities."""

from __future__ import annotations

import inspect
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

import csot
from cleaning.audit import choose
from cleaning.cells import Cell
from cleaning.measures import Record, describe, measure, share_right
from cleaning.prototype import best_power
from rivals.verdict import Labels, Scores


def judge_features(cell: Cell, verified_counts: list[int]) -> Record:
    task = cell.task
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cleaner = csot.LabelCleaner(random_state=task.seed, progress=False)
        cleaner.fit(task.features, task.given)
    seconds = time.perf_counter() - start
    findings = cleaner.findings_
    ours = _measure_findings(
        cell,
        findings,
        noise_rate=float(cleaner.noise_rate_),
        interval=getattr(cleaner, "noise_rate_interval_", None),
        test=np.asarray(cleaner.predict(task.test)),
        seconds=seconds,
    )
    probs = getattr(getattr(cleaner, "model_", None), "probs", None)
    if probs is not None:
        best, power = best_power(np.asarray(probs, np.float64), task.given, cell.truth)
        ours |= {"prototype_right": best, "prototype_power": power}
    ours["warnings"] = sorted({str(entry.message) for entry in caught})

    def judge_again(known: Labels) -> pd.DataFrame:
        again = csot.LabelCleaner(random_state=task.seed, progress=False)
        return again.fit(task.features, task.given, verified=known).findings_

    ours["curve"] = _verified_curve(cell, findings, verified_counts, judge_again)
    return describe(cell) | {"csot": ours}


def judge_probabilities(cell: Cell, probs: Scores, verified_counts: list[int]) -> Record:
    given = cell.task.given
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        findings = csot.find_label_issues(given, probs)
    seconds = time.perf_counter() - start
    # Without an estimate of its own: the scores are probabilities that the labels are right.
    rate = findings.attrs.get("noise_rate", 1 - findings["label_score"].mean())
    ours = _measure_findings(
        cell,
        findings,
        noise_rate=float(rate),
        interval=findings.attrs.get("noise_rate_interval"),
        test=None,
        seconds=seconds,
    )
    best, power = best_power(probs, given, cell.truth)
    ours |= {"prototype_right": best, "prototype_power": power}
    ours["warnings"] = sorted({str(entry.message) for entry in caught})
    if "verified" in inspect.signature(csot.find_label_issues).parameters:

        def judge_again(known: Labels) -> pd.DataFrame:
            return csot.find_label_issues(given, probs, verified=known)

        ours["curve"] = _verified_curve(cell, findings, verified_counts, judge_again)
    return describe(cell) | {"csot": ours}


def _measure_findings(
    cell: Cell,
    findings: pd.DataFrame,
    *,
    noise_rate: float,
    interval: Any,
    test: Labels | None,
    seconds: float,
) -> Record:
    record = measure(
        cell,
        score=findings["label_score"].to_numpy(),
        flagged=findings["is_label_issue"].to_numpy(),
        corrected=findings["corrected_label"].to_numpy(),
        noise_rate=noise_rate,
        test=test,
        seconds=seconds,
    )
    ends = None if interval is None else [float(end) for end in interval]
    return record | {"noise_rate_interval": ends}


def _verified_curve(
    cell: Cell, findings: pd.DataFrame, counts: list[int], judge_again: Any
) -> list[Record]:
    """Share right after each count of verified rows, among the rows that no count verifies."""
    if not counts:
        return []
    chosen = choose(findings, max(counts), cell.task.seed)
    others = np.ones(len(cell.truth), dtype=np.bool_)
    others[chosen] = False
    curve = []
    for count in sorted(counts):
        judged = findings
        if count:
            known = np.full(len(cell.truth), -1, dtype=np.int64)
            known[chosen[:count]] = cell.truth[chosen[:count]]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                judged = judge_again(known)
        corrected = judged["corrected_label"].to_numpy()
        curve.append({"verified": count, "right": share_right(corrected, cell.truth, others)})
    return curve
