"""The findings table: one row per sample, with its labels, score, confidence and status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

Status = Literal["clean", "corrected", "uncertain"]

ID = "id"
GIVEN = "given_label"
PREDICTED = "predicted_label"
CORRECTED = "corrected_label"
IS_ISSUE = "is_label_issue"
SCORE = "label_score"
CONFIDENCE = "confidence"
STATUS = "status"
NOTE = "note"
REASON = "reason"
VERIFIED = "verified"
"""The note of a row that a person decided before this run."""
NO_CLASS_FITS = "no class fits"
"""The note of a row that is far from every class."""
TOO_FEW_ROWS = "too few rows of this class"
"""The note of a row whose class is too rare to be judged."""

FINDINGS_COLUMNS = (
    GIVEN,
    PREDICTED,
    CORRECTED,
    IS_ISSUE,
    SCORE,
    CONFIDENCE,
    STATUS,
    NOTE,
    REASON,
)
LABEL_COLUMNS = (GIVEN, PREDICTED, CORRECTED)
STATUSES: tuple[Status, ...] = ("clean", "corrected", "uncertain")

ROUNDING = 1e-6
"""How far a float32 probability may stray out of [0, 1]."""


def findings_table(
    index: pd.Index[Any],
    *,
    given: Any,
    predicted: Any,
    corrected: Any,
    is_issue: Any,
    score: npt.NDArray[np.floating[Any]],
    confidence: npt.NDArray[np.floating[Any]],
    status: Any,
    note: Any,
    reason: Any,
) -> pd.DataFrame:
    """The table of findings (N rows), for cleaning, annotators and training alike.

    Labels have the user's own type, None where there is none. Scores and confidences are clipped to
    [0, 1], which rounding may have left.
    """
    columns = {
        GIVEN: given,
        PREDICTED: predicted,
        CORRECTED: corrected,
        IS_ISSUE: is_issue,
        SCORE: np.clip(score.astype(np.float64), 0.0, 1.0),
        CONFIDENCE: np.clip(confidence.astype(np.float64), 0.0, 1.0),
        STATUS: status,
        NOTE: note,
        REASON: reason,
    }
    return pd.DataFrame(columns, index=index)


def suspicion_order(
    is_issue: npt.NDArray[np.bool_], score: npt.NDArray[np.floating[Any]], labelled: Any
) -> npt.NDArray[np.intp]:
    """All rows: issues first, then by falling doubt; rows without a label last."""
    known = np.asarray(labelled, dtype=bool)
    return np.lexsort((np.where(known, score, 2.0), ~(is_issue & known)))


def check_findings(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table, or raise a `ValueError` that names the column, the row and the remedy.

    `given_label` is missing (None or NaN) where no label was given; only there may
    `corrected_label` and `label_score` be missing too. A `clean` row keeps its label and a
    `corrected` row changes it; an `uncertain` row may do either. A table without the last
    column, as older versions made it, gets empty reasons.
    """
    if tuple(frame.columns) == FINDINGS_COLUMNS[:-1]:
        frame = frame.assign(**{REASON: ""})
    if tuple(frame.columns) != FINDINGS_COLUMNS:
        raise ValueError(
            f"findings must have the columns {list(FINDINGS_COLUMNS)} in this order, "
            f"got {list(frame.columns)}"
        )
    unlabelled = frame[GIVEN].isna()
    for column in LABEL_COLUMNS:
        labels = frame[column]
        _refuse(frame, labels.astype(object) == "", column, "is empty: use None for no label")
    _refuse(frame, frame[PREDICTED].isna(), PREDICTED, "is missing")
    _refuse(frame, frame[CORRECTED].isna() & ~unlabelled, CORRECTED, "is missing")
    if not pd.api.types.is_bool_dtype(frame[IS_ISSUE].dtype):
        raise ValueError(f"{IS_ISSUE} must be boolean, got dtype {frame[IS_ISSUE].dtype}")
    for column in (SCORE, CONFIDENCE):
        values = frame[column]
        if not pd.api.types.is_float_dtype(values.dtype):
            raise ValueError(f"{column} must be float, got dtype {values.dtype}")
        _refuse(frame, (values < -ROUNDING) | (values > 1 + ROUNDING), column, "is not in [0, 1]")
        allowed = unlabelled if column == SCORE else np.zeros(len(frame), dtype=bool)
        _refuse(frame, values.isna() & ~allowed, column, "is missing")
    status = frame[STATUS].astype(object)
    _refuse(frame, ~status.isin(STATUSES), STATUS, f"is not one of {list(STATUSES)}")
    same = frame[GIVEN].astype(object) == frame[CORRECTED].astype(object)
    _refuse(frame, (status == "clean") & ~same, CORRECTED, "differs from the label of a clean row")
    _refuse(frame, (status == "corrected") & same, CORRECTED, "repeats the label it corrects")
    for column in (NOTE, REASON):
        is_text = frame[column].map(lambda cell: isinstance(cell, str))
        _refuse(frame, ~is_text.astype(bool), column, f"is not text: use '' for no {column}")
    return frame


def _refuse(frame: pd.DataFrame, bad: Any, column: str, what: str) -> None:
    """Raise for the first bad row."""
    rows = np.flatnonzero(np.asarray(bad, dtype=bool))
    if len(rows):
        value = frame[column].iloc[rows[0]]
        raise ValueError(
            f"{column} {what} in {len(rows)} of {len(frame)} rows, "
            f"first {value!r} at id {frame.index[rows[0]]!r}"
        )


def number_labels(
    labels: pd.Series[Any],
    numbers: dict[Any, int],
    name: Callable[[Any], Any] = lambda label: label,
) -> npt.NDArray[np.int64]:
    """Class numbers (N,), -1 where there is no label.

    A class that `numbers` lacks, by the `name` of its label, is added with the next number.
    """
    positions, found = pd.factorize(labels.astype(object))
    known = [numbers.setdefault(name(label), len(numbers)) for label in found.tolist()]
    return np.array([*known, -1], dtype=np.int64)[positions]


def all_labels(findings: pd.DataFrame) -> list[Any]:
    """Every label that occurs, once."""
    return list(dict.fromkeys(label for name in LABEL_COLUMNS for label in findings[name].tolist()))
