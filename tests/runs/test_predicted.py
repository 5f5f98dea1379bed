"""Predictions: their short form and their table."""

from __future__ import annotations

import numpy as np

from csot.runs.predicted import Predicted


def test_the_representation_is_one_short_line() -> None:
    names = [f"class {k}" for k in range(200)]
    probabilities = np.full((1000, 200), 0.1 / 199, dtype=np.float32)
    probabilities[:, 3] = 0.9
    found = Predicted([str(k) for k in range(1000)], names, probabilities, 7, 0.5)
    assert repr(found) == (
        "Predicted(1,000 rows; classes class 0, class 1, class 2, class 3, class 4, class 5 and "
        "194 more; mean confidence 0.90; accuracy 50.00%; epoch 7)"
    )
    assert found.table()["predicted_label"].unique().tolist() == ["class 3"]
    assert len(found._repr_html_()) < 6000


def test_markup_in_names_is_shown_as_text() -> None:
    one = Predicted(["<b>"], ["<script>", "b"], np.array([[1, 0]], np.float32))
    assert "<script>" not in one._repr_html_()
    assert "<b>" not in one._repr_html_()


def test_no_rows() -> None:
    assert repr(Predicted([], ["a", "b"], np.empty((0, 2), np.float32))) == (
        "Predicted(0 rows; classes a, b)"
    )
