"""What a member of the ensemble is, and what the classes that fit one are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from csot.clean.explanation import Explanation
from csot.clean.features import Basis
from csot.clean.folds import Folds
from csot.clean.likelihood import Evidence
from csot.clean.members.probe import Probe
from csot.clean.stacking import Stack


class MemberPredictor(Protocol):
    """Logits (N, C) for new rows, already standardised."""

    def __call__(self, rows: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Member:
    """Held-out logits (N, C) of the training rows, and how to predict new ones."""

    name: str
    logits: Tensor
    predictor: MemberPredictor | None


@dataclass(frozen=True)
class TrainingSet:
    """The rows, their folds and what is known about their classes."""

    basis: Basis
    light: Basis
    """The same axes without the training rows, for predictors."""
    folds: Folds
    evidence: Evidence
    seed: int
    spread: float
    """How evenly the features are spread (`spread_of_features`); 0 where it is not asked for."""


@dataclass(frozen=True)
class FirstPass:
    """What linear probes say before anything else is trained."""

    probes: list[Probe]
    judged: Stack
    explanation: Explanation
    trusted: Tensor
    """(N, K): whether fold k's own probe finds row i's label believable."""


@dataclass(frozen=True)
class Fit:
    """Members, and the noise matrix that later members start from."""

    members: list[Member]
    noise: Tensor


class Learner(Protocol):
    """Fits members after the first pass."""

    @property
    def name(self) -> str:
        """Name in `LabelCleaner(members=...)`."""

    @property
    def stage(self) -> str:
        """Name of the stage that progress shows."""

    def applies(self, training: TrainingSet) -> bool:
        """Whether it is of use on data of this size."""

    def fit(self, training: TrainingSet, first: FirstPass, noise: Tensor) -> Fit:
        """Train on the rows that the first pass trusts, under a noise matrix."""
