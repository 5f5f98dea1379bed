"""Findings of a cleaner that ranks well and may be badly wrong about how many labels are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

CLASSES = np.array(["cat", "dog", "fox"], dtype=object)


def made_findings(
    n: int, rate: float, seed: int, *, denies: bool = False, corrects: bool = True
) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """The findings, and the truth. ``denies``: scores near one wherever the label is kept."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    hard = rng.random(n) < 0.3
    wrong = rng.random(n) < rate * np.where(hard, 2.4, 0.4)
    given = np.where(wrong, (truth + rng.integers(1, 3, n)) % 3, truth)
    seen = rng.random(n) < np.where(hard, 0.6, 0.95)
    predicted = np.where(seen, truth, rng.integers(0, 3, n))
    score = np.where(predicted == given, rng.beta(8, 1, n), rng.beta(2, 3, n))
    if denies:
        score = 0.97 + 0.03 * score
    corrected = np.where((score < 0.35) & corrects, predicted, given)
    changed = corrected != given
    index = pd.Index([f"r{k}" for k in range(n)], name="id")
    findings = pd.DataFrame(
        {
            "given_label": CLASSES[given],
            "predicted_label": CLASSES[predicted],
            "corrected_label": CLASSES[corrected],
            "is_label_issue": changed | (score < 0.45),
            "label_score": score,
            "confidence": np.where(changed, 0.9, score),
            "status": np.where(changed, "corrected", "clean").astype(object),
            "note": pd.Series([""] * n, index, dtype=object),
        },
        index=index,
    )
    return findings, CLASSES[truth]
