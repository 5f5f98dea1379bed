"""What a member of the ensemble is: held-out logits, and a predictor for new rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class Predictor(Protocol):
    """Logits (N, C) for new rows, already standardised."""

    def __call__(self, rows: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Member:
    """Held-out logits (N, C) of the training rows, and how to predict new ones."""

    name: str
    logits: Tensor
    predictor: Predictor | None
