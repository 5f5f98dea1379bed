"""From the posterior of the truth to one verdict per row.

``corrected_label`` is the likeliest class: a label is changed only where that is expected to
improve the set. ``is_label_issue`` means "worth a look": it flags the rows that maximise the
expected F1 score, so it also holds labels that are doubtful but not replaced.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot.clean.labels import EncodedLabels
from csot.records.reasons import Verdicts, reasons

CONFIDENT = 0.8
"""Below this posterior of the best class the evidence does not carry a verdict."""

LEAST_ROWS = 3
"""Rows that a class needs before one of them can be judged by the others."""

LEAST_CHANCE = 0.1
"""Chance of being wrong below which no label is worth a look."""

MISFIT = 6.0
"""Robust deviations of the log distance to the nearest class beyond which no class fits."""


def make_findings(
    posterior: npt.NDArray[np.float64],
    probs: npt.NDArray[np.floating[Any]],
    labels: EncodedLabels,
    verified: npt.NDArray[np.int64],
    misfit: npt.NDArray[np.bool_],
    index: pd.Index[Any],
    informative: bool = True,
) -> pd.DataFrame:
    """The findings table: posterior (N, C), model probabilities (N, C), labels, locks.

    ``informative`` false: the features say nothing, so no verdict is given on any label.
    """
    given = labels.index
    rows = np.arange(len(given))
    best = posterior.argmax(1)
    rare = _of_rare_class(given)
    best = np.where(rare, given, best)
    # A tie is no reason to change a label.
    own = posterior[rows, np.maximum(given, 0)]
    best = np.where((given >= 0) & (own >= posterior[rows, best]), given, best)
    locked = verified >= 0
    corrected = np.where(locked, verified, best)
    confidence = np.where(locked, 1.0, posterior[rows, corrected])
    # An unlabelled row has no label that could be wrong; its score is how sure the suggestion is.
    score = np.where(given >= 0, own, confidence)
    score = np.where(locked, (corrected == given) | (given < 0), score)
    status = np.where(corrected == given, "clean", "corrected").astype(object)
    judged = (given >= 0) & ~locked & ~rare & informative
    issue = judged & ((corrected != given) | _worth_a_look(1 - score, judged))
    kept = issue & (corrected == given)
    doubtful = (confidence < CONFIDENT) | kept | misfit | rare | (not informative)
    status[doubtful & ~locked] = "uncertain"
    note = np.full(len(given), "" if informative else "features say nothing", dtype=object)
    note[rare] = "too few rows of this class"
    note[given < 0] = "no label given"
    note[misfit] = "no class fits"
    note[locked] = "verified"
    predicted = probs.argmax(1)
    verdicts = Verdicts(
        posterior=posterior,
        given=given,
        predicted=predicted,
        prediction=probs[rows, predicted],
        corrected=corrected,
        issue=issue,
        verified=locked,
        misfit=misfit,
        rare=rare,
        informative=informative,
    )
    return pd.DataFrame(
        {
            "given_label": labels.decode(given),
            "predicted_label": labels.classes[predicted],
            "corrected_label": labels.classes[corrected],
            "is_label_issue": issue,
            "label_score": np.clip(score.astype(np.float64), 0.0, 1.0),
            "confidence": np.clip(confidence, 0.0, 1.0),
            "status": status,
            "note": note,
            "reason": reasons(verdicts, labels.classes.tolist()),
        },
        index=index,
    )


def _worth_a_look(
    wrong: npt.NDArray[np.floating[Any]], judged: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Rows that maximise the expected F1 score, from the probability that each label is wrong.

    Flagging the k likeliest has an expected F1 of about 2 sum_{i<=k} w_i / (k + sum_i w_i); the
    best threshold is half of the best score, so never above 1/2. A label that is right with nine
    chances in ten is never flagged: a set without errors has no issues.
    """
    flagged = np.zeros(len(wrong), dtype=np.bool_)
    if not judged.any():
        return flagged
    chances = np.sort(wrong[judged])[::-1].astype(np.float64)
    found = np.cumsum(chances)
    score = 2 * found / (np.arange(1, len(chances) + 1) + found[-1])
    threshold = max(float(chances[int(score.argmax())]), LEAST_CHANCE)
    flagged[judged] = wrong[judged] >= threshold
    return flagged


def _of_rare_class(given: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Rows of classes with so few labels that the models never learned them."""
    counts = np.bincount(given[given >= 0], minlength=1)
    return np.asarray((given >= 0) & (counts[np.maximum(given, 0)] < LEAST_ROWS))


def misfits(
    rows: npt.NDArray[np.floating[Any]], posterior: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Rows far from every class: their distance to the nearest class mean is out of all proportion.

    Coordinates on principal axes, divided by their spread within classes; log distances compared
    with their median by the median absolute deviation, so that a few misfits cannot hide.
    """
    shares = posterior.sum(0)
    used = shares > 1.0
    if len(rows) < 20 or not used.any():
        return np.zeros(len(rows), dtype=np.bool_)
    means = (posterior.T @ rows)[used] / shares[used, None]
    within = (rows**2).mean(0) - (shares[used, None] * means**2).sum(0) / shares[used].sum()
    spread = np.sqrt(np.maximum(within, 1e-12 * max(float(within.max()), 1e-30)))
    scaled, centres = rows / spread, means / spread
    squared = (scaled**2).sum(1)[:, None] - 2 * scaled @ centres.T + (centres**2).sum(1)
    distance = np.log(np.maximum(squared.min(1), 1e-12))
    middle = np.median(distance)
    deviation = 1.4826 * np.median(np.abs(distance - middle))
    return np.asarray(distance > middle + MISFIT * max(float(deviation), 0.05))
