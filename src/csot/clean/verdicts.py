"""From the posterior of the truth to one verdict per row: `is_label_issue`, label and status."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from csot.clean.explanation import ChosenExplanation, Explanation
from csot.clean.inputs import EncodedLabels
from csot.clean.likelihood import Evidence
from csot.clean.noise_rate_interval import widened
from csot.runs.findings import (
    GIVEN,
    NO_CLASS_FITS,
    NOTE,
    PREDICTED,
    STATUSES,
    TOO_FEW_ROWS,
    VERIFIED,
    findings_table,
)
from csot.runs.noise import NoiseEstimate
from csot.runs.reasons import Verdicts, reasons

CONFIDENT = 0.8
"""Below this posterior of the best class the evidence does not carry a verdict."""

UNINFORMATIVE, NO_LABEL = "features say nothing", "no label given"
NOTES = ("", UNINFORMATIVE, TOO_FEW_ROWS, NO_LABEL, NO_CLASS_FITS, VERIFIED)
RARE_CLASS_ROWS = 3
"""Rows that a class needs before one of them can be judged by the others."""
FLAG_ROWS = 4_000
"""Rows that determine from which chance on a label is flagged."""
LEAST_CHANCE = 0.1
"""Chance of being wrong below which no label is worth a look."""


@dataclass(frozen=True)
class Rules:
    """What the rows of `fit` decide for all rows, also for those that come later."""

    threshold: float
    """Chance of being wrong from which a label is worth a look."""
    rare: npt.NDArray[np.bool_]
    """(C,): classes with so few labels that the models never learned them."""

    @staticmethod
    def of(judgement: ChosenExplanation, probs: Tensor, evidence: Evidence) -> Rules:
        """From probabilities p(x) (N, C)."""
        given = evidence.given
        rare = torch.bincount(given[given >= 0], minlength=evidence.n_classes) < RARE_CLASS_ROWS
        judged = (given >= 0) & (evidence.verified < 0) & ~rare[given.clamp(min=0)]
        threshold = flag_threshold(judgement, probs[judged], evidence.take(judged))
        return Rules(threshold, rare.numpy())


def flag_threshold(judgement: ChosenExplanation, probs: Tensor, evidence: Evidence) -> float:
    """The chance of being wrong, by the chosen explanation, from which a label is worth a look.

    Flagging the k likeliest rows under an explanation e has an expected F1 of about
    2 sum_{i<=k} w_ei / (k + sum_i w_ei), w_ei the chance that label i is wrong. The threshold
    maximises its mean over the possible explanations, since the right one is not known: too few
    flags would miss most of the noise where there is more than the chosen one says. A label that
    is right with nine chances in ten is never flagged: a set without errors has no issues.

    `probs` (N, C) and `evidence` are of rows that are to be judged.
    """
    rows = (evidence.given >= 0).nonzero()[:, 0]
    rows = rows[:: max(1, len(rows) // FLAG_ROWS)]
    if not len(rows):
        return 0.5
    labels = Evidence.of_labels(evidence.given[rows], evidence.n_classes)

    def wrong(explanation: Explanation) -> Tensor:
        truth = explanation.posterior(probs[rows], labels)
        return 1 - truth.gather(1, labels.given[:, None])[:, 0]

    chances, order = wrong(judgement.explanation).sort(descending=True, stable=True)
    flagged = torch.arange(1, len(rows) + 1, dtype=chances.dtype)
    score, mean = torch.zeros_like(chances), torch.zeros_like(chances)
    for weight, explanation in judgement.possible:
        other = wrong(explanation)[order]
        found = other.cumsum(0)
        score += weight * 2 * found / (flagged + found[-1])
        mean += weight * other
    is_likely = mean >= LEAST_CHANCE
    if not bool(is_likely.any()):
        return 1.0
    return float(chances[int(torch.where(is_likely, score, -1.0).argmax())])


def rate_of_new_rows(
    explanation: Explanation, probs: Tensor, evidence: Evidence
) -> tuple[float, float]:
    """Interval of the noise rate of rows that the explanation was not chosen on.

    As for a data set without verified rows: from all overlap being real to labels that tell
    nothing beyond the features.
    """
    labelled = evidence.given >= 0
    part, wide = evidence.take(labelled), probs[labelled].double()
    plain = Explanation(0.0, 1.0, 0.0, explanation.noise)
    candidates = [plain.posterior(wide, part), explanation.posterior(wide, part), wide]
    rates = [
        1 - float(q.gather(1, part.given[:, None]).mean()) if len(q) else 0.0 for q in candidates
    ]
    return widened(min(rates), max(rates), max(len(part), 1))


def make_findings(
    posterior: npt.NDArray[np.float64],
    best: npt.NDArray[np.int64],
    probs: npt.NDArray[np.floating[Any]],
    labels: EncodedLabels,
    verified: npt.NDArray[np.int64],
    misfit: npt.NDArray[np.bool_],
    index: pd.Index[Any],
    rules: Rules,
    informative: bool = True,
) -> pd.DataFrame:
    """The findings table: posterior of the truth (N, C), the labels (N,) that the rows should have,
    model probabilities (N, C), labels, verified ones.

    `informative` false: the features say nothing, so no verdict is given on any label.
    """
    given = labels.index
    rows = np.arange(len(given))
    rare = (given >= 0) & rules.rare[np.maximum(given, 0)]
    best = np.where(rare, given, best)
    locked = verified >= 0
    corrected = np.where(locked, verified, best)
    confidence = np.where(locked, 1.0, posterior[rows, corrected])
    # An unlabelled row has no label that could be wrong; its score is how sure the suggestion is.
    score = np.where(given >= 0, posterior[rows, np.maximum(given, 0)], confidence)
    score = np.where(locked, (corrected == given) | (given < 0), score)
    judged = (given >= 0) & ~locked & ~rare & informative
    issue = judged & ((corrected != given) | (1 - score >= rules.threshold))
    kept = issue & (corrected == given)
    doubtful = (confidence < CONFIDENT) | kept | misfit | rare | (not informative)
    status = np.where(doubtful & ~locked, STATUSES.index("uncertain"), corrected != given)
    note = np.full(len(given), 0 if informative else NOTES.index(UNINFORMATIVE))
    for mask, text in (
        (rare, TOO_FEW_ROWS),
        (given < 0, NO_LABEL),
        (misfit, NO_CLASS_FITS),
        (locked, VERIFIED),
    ):
        note[mask] = NOTES.index(text)
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
    return findings_table(
        index,
        given=labels.decode(given),
        predicted=labels.classes[predicted],
        corrected=labels.classes[corrected],
        is_issue=issue,
        score=score,
        confidence=confidence,
        status=_texts(STATUSES, status),
        note=_texts(NOTES, note),
        reason=reasons(verdicts, labels.classes.tolist()),
    )


def _texts(texts: Sequence[str], numbers: npt.NDArray[np.int64]) -> Any:
    """A column of texts (N,) by their numbers, as pandas would make it of the texts themselves."""
    return pd.Series(list(texts)).array.take(numbers)


# Rows that no class fits: far from every class mean, out of all proportion to the others.

DEVIATIONS = 6.0
"""Robust deviations of the log distance to the nearest class beyond which no class fits."""
FEWEST_TO_FIT = 20
ROWS_AT_A_TIME = 4096

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class ClassDistances:
    """Means (K, D) of the classes, the spread (D,) within them, and the largest log distance.

    Coordinates on principal axes, divided by their spread within classes. The limit is the median
    of the training rows' log distances plus so many median absolute deviations, so that a few
    misfits cannot hide.
    """

    means: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]
    limit: float

    @staticmethod
    def of(rows: Floats, posterior: npt.NDArray[np.float64]) -> ClassDistances:
        """From coordinates (N, D) and the posterior of the truth (N, C)."""
        shares = posterior.sum(0)
        used = shares > 1.0
        dim = rows.shape[1]
        if len(rows) < FEWEST_TO_FIT or not used.any():
            return ClassDistances(np.zeros((1, dim)), np.ones(dim), float("inf"))
        totals = posterior.astype(rows.dtype).T @ rows
        means = totals[used].astype(np.float64) / shares[used, None]
        squares = np.square(rows).mean(0, dtype=np.float64)
        within = squares - (shares[used, None] * means**2).sum(0) / shares[used].sum()
        spread = np.sqrt(np.maximum(within, 1e-12 * max(float(within.max()), 1e-30)))
        distance = ClassDistances(means, spread, float("inf")).nearest(rows)
        middle = np.median(distance)
        deviation = 1.4826 * np.median(np.abs(distance - middle))
        limit = float(middle + DEVIATIONS * max(float(deviation), 0.05))
        return ClassDistances(means, spread, limit)

    def nearest(self, rows: Floats) -> npt.NDArray[np.float64]:
        """log of the squared distance (N,) to the nearest class mean."""
        centres = self.means / self.spread
        lengths, nearest = (centres**2).sum(1), np.empty(len(rows))
        for i in range(0, len(rows), ROWS_AT_A_TIME):
            part = slice(i, i + ROWS_AT_A_TIME)
            scaled = rows[part] / self.spread
            to_centres = lengths - 2 * scaled @ centres.T
            nearest[part] = np.einsum("ij,ij->i", scaled, scaled) + to_centres.min(1)
        return np.asarray(np.log(np.maximum(nearest, 1e-12)))

    def misfits(self, rows: Floats) -> npt.NDArray[np.bool_]:
        """Rows (N,) that no class fits."""
        return np.asarray(self.nearest(rows) > self.limit)


# A warning where the prediction contradicts far more labels than the noise rate admits.

LARGE_SHARE = 0.2
"""Labels that the prediction may contradict without a warning."""
ENOUGH_VERIFIED = 30
"""Verified rows from which they, and not an assumption, set the noise rate."""


class DisagreementWarning(UserWarning):
    """The prediction contradicts many labels that are not judged wrong."""


def describe_disagreement(findings: pd.DataFrame, noise: NoiseEstimate) -> str:
    """What to warn of; empty if the noise rate accounts for the disagreement."""
    if noise.n_verified >= ENOUGH_VERIFIED:
        return ""
    open_ = (findings[GIVEN].notna() & (findings[NOTE] != VERIFIED)).to_numpy()
    differs = (findings[GIVEN] != findings[PREDICTED]).to_numpy()[open_]
    n, count = len(differs), int(differs.sum())
    share = count / max(n, 1)
    # By two standard errors: a few rows may disagree by chance.
    surely = share - 2 * float(np.sqrt(share * (1 - share) / max(n, 1)))
    if surely <= LARGE_SHARE or noise.rate >= share / 2:
        return ""
    return (
        f"The prediction differs from {count:,} of {n:,} labels ({100 * share:.0f} %), but only "
        f"{100 * noise.rate:.1f} % are estimated to be wrong{noise.range_words(', possibly ')}. "
        "Either the features or probabilities are too weak to tell these classes apart, or many "
        "more labels are wrong; the labels alone cannot say which. Verify about 100 rows (csot "
        "audit RUN, or csot.propose_audit in Python) and pass them as verified= (--verified)."
    )


def warn_of_disagreement(findings: pd.DataFrame, noise: NoiseEstimate, stacklevel: int) -> None:
    """Emit a `DisagreementWarning` if there is something to warn of."""
    message = describe_disagreement(findings, noise)
    if message:
        warnings.warn(message, DisagreementWarning, stacklevel=stacklevel + 1)
