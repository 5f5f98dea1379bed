"""Rivals that judge by the cross-validated probe: cleanlab's three ways, and plain disagreement.

With p (N, C) held out and y the given labels:

- ``cleanlab``: confident learning (Northcutt, Jiang and Chuang 2021, JAIR 70). A row counts as
  class k where p_k >= t_k, the mean p_k of the rows labelled k; the counts, calibrated, estimate
  the joint of given and true labels; of each off-diagonal pair that many rows of largest margin
  p_k - p_y are flagged. Test accuracy is that of cleanlab's CleanLearning around the same probe.
- ``self_confidence``: score p_y; as many of the lowest are flagged as the joint says.
- ``normalized_margin``: score (p_y - max_{k != y} p_k + 1) / 2; likewise.
- ``probe``: flagged where argmax p differs from y, scored by p_y; nothing is removed in training.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from cleanlab.classification import CleanLearning
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores

from rivals.probe import CrossValidated, LinearProbe
from rivals.verdict import Labels, Mask, Scores, Task, Verdict

RANKINGS = {
    "self_confidence": "low_self_confidence",
    "normalized_margin": "low_normalized_margin",
}


def judge_by_probe(task: Task, fitted: CrossValidated, seconds: float) -> dict[str, Verdict]:
    """All four; ``seconds`` is what the cross-validation took, part of each method's time."""
    verdicts = {"cleanlab": _timed(seconds, lambda: _cleanlab(task, fitted))}
    for method in RANKINGS:
        verdicts[method] = _timed(seconds, lambda method=method: _ranked(task, fitted, method))
    verdicts["probe"] = _timed(seconds, lambda: _probe(task, fitted))
    return verdicts


def judge_probabilities(given: Labels, probs: Scores) -> dict[str, tuple[Scores, Mask]]:
    """Score and flags of the four where there are only probabilities."""
    self_confidence = get_label_quality_scores(given, probs, method="self_confidence")
    judged = {"cleanlab": (self_confidence, find_label_issues(given, probs, n_jobs=1))}
    for method, rule in RANKINGS.items():
        score = get_label_quality_scores(given, probs, method=method)
        judged[method] = score, find_label_issues(given, probs, filter_by=rule, n_jobs=1)
    judged["probe"] = self_confidence, probs.argmax(1) != given
    return judged


def _cleanlab(task: Task, fitted: CrossValidated) -> Verdict:
    flagged = find_label_issues(task.given, fitted.probs, n_jobs=1)
    learner = CleanLearning(LinearProbe(fitted.ridge, task.n_classes))
    learner.fit(task.features, task.given, pred_probs=fitted.probs)
    score = get_label_quality_scores(task.given, fitted.probs, method="self_confidence")
    return _verdict(task, fitted, score, flagged, learner.predict(task.test))


def _ranked(task: Task, fitted: CrossValidated, method: str) -> Verdict:
    score = get_label_quality_scores(task.given, fitted.probs, method=method)
    flagged = find_label_issues(task.given, fitted.probs, filter_by=RANKINGS[method], n_jobs=1)
    return _verdict(task, fitted, score, flagged, _without(task, fitted, flagged))


def _probe(task: Task, fitted: CrossValidated) -> Verdict:
    score = fitted.probs[np.arange(len(task.given)), task.given]
    flagged = fitted.probs.argmax(1) != task.given
    nothing = np.zeros_like(flagged)
    return _verdict(task, fitted, score, flagged, _without(task, fitted, nothing))


def _without(task: Task, fitted: CrossValidated, removed: Mask) -> Labels:
    return fitted.predict(fitted.refit(~removed), task.test)


def _verdict(
    task: Task, fitted: CrossValidated, score: Scores, flagged: Mask, test: Labels
) -> Verdict:
    predicted = fitted.probs.argmax(1)
    return Verdict(score, flagged, predicted, float(flagged.mean()), test, 0.0)


def _timed(before: float, judge: Callable[[], Verdict]) -> Verdict:
    start = time.perf_counter()
    verdict = judge()
    seconds = before + time.perf_counter() - start
    return Verdict(**{**vars(verdict), "seconds": seconds})
