"""A run that several files read, and cleaners that are fitted once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from csot.clean import LabelCleaner
from training.quick import DIGITS, command

FITTED: dict[tuple[object, ...], LabelCleaner] = {}


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CSOT on a part of the digits, trained by the command. Shared: do not write into it."""
    out = tmp_path_factory.mktemp("digits") / "run"
    result = command("train", *DIGITS, "--out", out, "--quiet")
    assert result.exit_code == 0, result.output
    return out


class Remembered(LabelCleaner):
    """Fitted as ever, but to the same rows and labels only once."""

    def fit(self, X: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Remembered:
        key = (str(self.get_params()), str(X.dtype), X.shape, X.tobytes(), *y.tolist())
        if key not in FITTED:
            FITTED[key] = LabelCleaner(**self.get_params()).fit(X, y)
        vars(self).update(vars(FITTED[key]))
        return self


@pytest.fixture(autouse=True)
def remembered_cleaners(monkeypatch: pytest.MonkeyPatch) -> None:
    """After training on few rows a cleaner is fitted too, which takes longer than the training."""
    monkeypatch.setattr("csot.training.cleaner_comparison.LabelCleaner", Remembered)
