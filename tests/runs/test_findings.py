"""What a findings table may hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from csot.runs import FINDINGS_COLUMNS, check_findings


def findings(**columns: Any) -> pd.DataFrame:
    """Four rows: clean, corrected, uncertain, and one without a label."""
    cells = {
        "given_label": ["cat", "dog", "cat", None],
        "predicted_label": ["cat", "cat", "dog", "dog"],
        "corrected_label": ["cat", "cat", "cat", "dog"],
        "is_label_issue": [False, True, False, False],
        "label_score": [0.99, 0.02, 0.48, np.nan],
        "confidence": [0.99, 0.97, 0.48, 0.8],
        "status": ["clean", "corrected", "uncertain", "corrected"],
        "note": ["", "", "no class fits", "no label given"],
        "reason": ["", "Looks like dog (97 %), not cat (3 %).", "", ""],
        **columns,
    }
    return pd.DataFrame(cells, index=pd.Index(["a", "b", "c", "d"], name="id"))


def test_a_right_table_passes_unchanged() -> None:
    frame = findings()
    before = frame.copy()
    assert check_findings(frame) is frame
    pd.testing.assert_frame_equal(frame, before)


def test_an_empty_table_passes() -> None:
    frame = findings().iloc[:0]
    assert len(check_findings(frame)) == 0


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"predicted_label": ["cat", None, "dog", "dog"]}, "predicted_label is missing.*'b'"),
        ({"corrected_label": ["cat", "cat", None, "dog"]}, "corrected_label is missing.*'c'"),
        ({"given_label": ["cat", "dog", "", None]}, "given_label is empty.*use None"),
        ({"is_label_issue": [0, 1, 0, 0]}, "is_label_issue must be boolean"),
        ({"label_score": [0.1, 1.5, 0.2, 0.3]}, r"label_score is not in \[0, 1\].*1\.5.*'b'"),
        ({"label_score": [np.nan, 0.5, 0.2, 0.3]}, "label_score is missing.*'a'"),
        ({"confidence": [0.1, 0.5, 0.2, np.nan]}, "confidence is missing.*'d'"),
        ({"confidence": ["a", "b", "c", "d"]}, "confidence must be float"),
        ({"status": ["clean", "fixed", "uncertain", "corrected"]}, "status is not one of.*'fixed'"),
        ({"status": ["clean", "clean", "uncertain", "corrected"]}, "differs from the label"),
        ({"corrected_label": ["cat", "dog", "cat", "dog"]}, "repeats the label"),
        ({"note": ["", None, "", ""]}, "note is not text.*'b'"),
        ({"reason": ["", "", 1.0, ""]}, "reason is not text.*'c'"),
        ({"extra": 1}, "must have the columns"),
    ],
)
def test_a_wrong_table_is_refused_by_name(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_findings(findings(**columns))


def test_the_order_of_columns_is_part_of_the_contract() -> None:
    with pytest.raises(ValueError, match="in this order"):
        check_findings(findings()[list(FINDINGS_COLUMNS[::-1])])


def test_rounding_of_float32_is_forgiven() -> None:
    frame = findings(confidence=np.array([1.0000001, 0.5, 0.5, 0.5], dtype=np.float32))
    assert len(check_findings(frame)) == 4
