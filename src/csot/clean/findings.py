"""From the posterior of the truth to one verdict per row.

``corrected_label`` is the likeliest class: a label is changed only where that is expected to
improve the set. ``is_label_issue`` means "worth a look": it flags the rows that maximise the
expected F1 score, so it also holds labels that are doubtful but not replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Rules:
    """What the rows of ``fit`` decide for all rows, also for those that come later."""

    threshold: float
    """Chance of being wrong from which a label is worth a look."""
    rare: npt.NDArray[np.bool_]
    """(C,): classes with so few labels that the models never learned them."""

    @staticmethod
    def of(
        posterior: npt.NDArray[np.float64],
        given: npt.NDArray[np.int64],
        verified: npt.NDArray[np.int64],
    ) -> Rules:
        """From posterior (N, C), given and verified labels (N,), -1 where there is none."""
        rare = np.bincount(given[given >= 0], minlength=posterior.shape[1]) < LEAST_ROWS
        judged = np.flatnonzero((given >= 0) & (verified < 0))
        judged = judged[~rare[given[judged]]]
        return Rules(_look_threshold(1 - posterior[judged, given[judged]]), rare)


def make_findings(
    posterior: npt.NDArray[np.float64],
    probs: npt.NDArray[np.floating[Any]],
    labels: EncodedLabels,
    verified: npt.NDArray[np.int64],
    misfit: npt.NDArray[np.bool_],
    index: pd.Index[Any],
    informative: bool = True,
    rules: Rules | None = None,
) -> pd.DataFrame:
    """The findings table: posterior (N, C), model probabilities (N, C), labels, locks.

    ``informative`` false: the features say nothing, so no verdict is given on any label.
    ``rules`` are those of the rows themselves by default.
    """
    given = labels.index
    rules = Rules.of(posterior, given, verified) if rules is None else rules
    rows = np.arange(len(given))
    best = posterior.argmax(1)
    rare = (given >= 0) & rules.rare[np.maximum(given, 0)]
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
    issue = judged & ((corrected != given) | (1 - score >= rules.threshold))
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


def _look_threshold(wrong: npt.NDArray[np.floating[Any]]) -> float:
    """The threshold of maximal expected F1 score, from the probability that each label is wrong.

    Flagging the k likeliest has an expected F1 of about 2 sum_{i<=k} w_i / (k + sum_i w_i); the
    best threshold is half of the best score, so never above 1/2. A label that is right with nine
    chances in ten is never flagged: a set without errors has no issues.
    """
    if not len(wrong):
        return 0.5
    chances = np.sort(wrong)[::-1].astype(np.float64)
    found = np.cumsum(chances)
    score = 2 * found / (np.arange(1, len(chances) + 1) + found[-1])
    return max(float(chances[int(score.argmax())]), LEAST_CHANCE)
