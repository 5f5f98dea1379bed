"""Why a verdict is what it is: one sentence per row, in words that a reviewer understands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from csot._core.array_types import Bools, Ints

SURE = 0.8
"""Probability from which the likeliest class is named alone."""
NAME_LIMIT = 60
AGREES = "The prediction agrees with the label."
VERIFIED_LABEL = "Verified by a person."
UNINFORMATIVE = "The features do not predict the labels, so this one cannot be judged."
UNINFORMATIVE_UNLABELLED = "No label given, and the features do not predict the labels."
UNLABELLED = "No label given; looks like %s (%s)."
FITS = "The label %s fits (%s)."
REPLACED = "Looks like %s (%s), not %s (%s)."
NOT_ENOUGH = "The prediction is %s (%s), which is not enough to doubt the label."
FITS_BEST = "The label %s fits best (%s), but %s (%s) is possible"
LIKELIER = "Looks more like %s (%s) than the label %s (%s), but not surely enough to change it"
UNLIKE = "fits none of the classes well; %s comes closest."
SHARES = ["under 1 %", *(f"{k} %" for k in range(1, 100)), "over 99 %"]
PLAIN_NAME = re.compile(r"[\w-]+")


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Arrays (N,), labels as class numbers, -1 for none; `posterior` (N, C) knows the label."""

    posterior: npt.NDArray[np.floating[Any]]
    given: Ints
    predicted: Ints
    """The likeliest class if the label is ignored."""
    prediction: npt.NDArray[np.floating[Any]]
    """Its probability."""
    corrected: Ints
    issue: Bools
    verified: Bools | None = None
    misfit: Bools | None = None
    rare: Bools | None = None
    """Rows of classes with too few labels."""
    informative: bool = True


def quoted(name: object) -> str:
    """A class name within a sentence: in quotation marks only where it could be misread."""
    text = " ".join(str(name).split())
    text = text if len(text) <= NAME_LIMIT else text[: NAME_LIMIT - 1] + "…"
    return text if PLAIN_NAME.fullmatch(text) else f"“{text}”"


def share(probability: float) -> str:
    """Format a probability in whole per cent; no model is certain."""
    return SHARES[int(_shares(np.array([probability]))[0])]


def short_reason(given: object | None, score: float, suggested: object, confidence: float) -> str:
    """From what the findings of an older version hold: labels and their probabilities."""
    suggestion = quoted(suggested), share(confidence)
    if given is None:
        return UNLABELLED % suggestion
    if given == suggested:
        return FITS % suggestion
    return REPLACED % (*suggestion, quoted(given), share(score))


def reasons(verdicts: Verdicts, names: Sequence[Any]) -> npt.NDArray[np.object_]:
    """A sentence for each row (N,)."""
    v, words = verdicts, [quoted(name) for name in names]
    every, none = np.arange(len(v.given)), np.zeros(len(v.given), dtype=np.bool_)
    unlabelled, changed = v.given < 0, v.corrected != v.given
    confidence = v.posterior[every, v.corrected]
    sure = confidence >= SURE
    # Not np.full, which would make a new string for every row.
    texts = np.empty(len(v.given), dtype=object)
    texts[:] = AGREES
    open_ = ~none

    def fill(mask: Bools, sentence: str, *columns: tuple[list[str], Ints]) -> None:
        """Write the rows of a mask that are still open; a column is a table and an index by row."""
        rows = np.flatnonzero(open_ & mask)
        open_[rows] = False
        if not columns:
            texts[rows] = sentence
            return
        # Most sentences occur often: each is written once.
        code = np.zeros(len(rows), dtype=np.int64)
        for table, index in columns:
            code = code * len(table) + index[rows]
        _, first, which = np.unique(code, return_index=True, return_inverse=True)
        cells = [map(table.__getitem__, index[rows[first]].tolist()) for table, index in columns]
        written = [sentence % values for values in zip(*cells, strict=True)]
        texts[rows] = np.array(written, dtype=object)[which]

    suggestion = (words, v.corrected), (SHARES, _shares(confidence))
    label = (words, v.given), (SHARES, _shares(v.posterior[every, np.maximum(v.given, 0)]))
    prediction = (words, v.predicted), (SHARES, _shares(v.prediction))
    verified = none if v.verified is None else v.verified
    fill(verified & ~changed, VERIFIED_LABEL)
    fill(verified & unlabelled, "A person verified %s.", suggestion[0])
    fill(verified, "A person verified %s; the label was %s.", suggestion[0], label[0])
    if not v.informative:
        fill(unlabelled, UNINFORMATIVE_UNLABELLED)
        fill(~none, UNINFORMATIVE)
    misfit = none if v.misfit is None else v.misfit
    fill(misfit & unlabelled, f"No label given; {UNLIKE}", suggestion[0])
    fill(misfit, UNLIKE[0].upper() + UNLIKE[1:], suggestion[0])
    if v.rare is not None:
        fill(v.rare, "Too few rows are labelled %s to judge this label.", label[0])
    fill(unlabelled & sure, UNLABELLED, *suggestion)
    fill(changed & sure, REPLACED, *suggestion, *label)
    kept = ~changed
    fill(kept & ~v.issue & (v.predicted != v.given), NOT_ENOUGH, *prediction)
    fill(kept & ~v.issue & sure, AGREES)
    other, chance = _runner_up(v, np.flatnonzero(open_))
    rival = (words, other), (SHARES, chance)
    fill(unlabelled, "No label given; could be %s (%s) or %s (%s).", *suggestion, *rival)
    likelier = kept & (chance > label[1][1])
    fill(likelier & v.issue, f"{LIKELIER}; worth a look.", *rival, *label)
    fill(likelier, f"{LIKELIER}.", *rival, *label)
    fill(kept & v.issue, f"{FITS_BEST}; worth a look.", *label, *rival)
    fill(kept, f"{FITS_BEST}.", *label, *rival)
    fill(other == v.given, "Could be %s (%s) or %s (%s); worth a look.", *suggestion, *label)
    fill(~none, "Could be %s (%s), %s (%s) or %s (%s); worth a look.", *suggestion, *rival, *label)
    return texts


def _shares(probabilities: npt.NDArray[np.floating[Any]]) -> Ints:
    """Positions in SHARES."""
    hundredths = np.rint(np.nan_to_num(probabilities) * 100)
    return np.asarray(np.clip(hundredths, 0, 100), dtype=np.int64)


def _runner_up(v: Verdicts, rows: Ints) -> tuple[Ints, Ints]:
    """The likeliest class beside the corrected one, and its share; of these rows only."""
    other, chance = np.zeros(len(v.given), np.int64), np.zeros(len(v.given), np.int64)
    part = v.posterior[rows]
    part[np.arange(len(rows)), v.corrected[rows]] = -1.0
    other[rows] = part.argmax(1)
    chance[rows] = _shares(part[np.arange(len(rows)), other[rows]])
    return other, chance
