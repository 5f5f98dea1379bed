"""A run that several files read, and models of the cleaner that are fitted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from remembered_fits import remembered_fits as remembered_fits
from training.quick import DIGITS, command


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CSOT on a part of the digits, trained by the command. Shared: do not write into it."""
    out = tmp_path_factory.mktemp("digits") / "run"
    result = command("train", *DIGITS, "--out", out, "--quiet")
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture(autouse=True)
def cleaners_of_training(remembered_fits: None) -> None:
    """After training on few rows a cleaner is fitted too, which takes longer than the training."""
