"""Models of the cleaner that are fitted once, for tests of what comes before and after the fit.

A fit takes longer than all that such a test looks at, and many of them fit the same rows. That
the same rows give the same model is for `clean/test_cleaner.py` and `clean/test_contract.py`,
which always fit anew.
"""

from __future__ import annotations

import copy
import hashlib
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from csot.clean import cleaner
from csot.clean.model import FittedModel

FITTED: dict[bytes, tuple[FittedModel, list[str]]] = {}
REAL = cleaner.fit_model


class Fingerprint(pickle.Pickler):
    """Tensors by their values: torch pickles equal ones differently."""

    def reducer_override(self, value: object) -> Any:
        if isinstance(value, Tensor):
            array = value.numpy()
            return str, (f"{array.dtype} {array.shape} {array.strides} {array.tobytes().hex()}",)
        return NotImplemented


def fingerprint(*values: object) -> bytes:
    written = io.BytesIO()
    Fingerprint(written).dump(values)
    return hashlib.sha256(written.getvalue()).digest()


def fit_once(*arguments: Any, report: Callable[[str], None], **options: Any) -> FittedModel:
    """As `fit_model`, which reports its stages here too; each caller owns what it gets."""
    key = fingerprint(arguments, options)
    if key not in FITTED:
        stages: list[str] = []

        def begin(stage: str) -> None:
            stages.append(stage)
            report(stage)

        FITTED[key] = REAL(*arguments, report=begin, **options), stages
    else:
        for stage in FITTED[key][1]:
            report(stage)
    return copy.deepcopy(FITTED[key][0])


@pytest.fixture
def remembered_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaner, "fit_model", fit_once)
