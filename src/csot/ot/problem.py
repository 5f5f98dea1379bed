"""The entropic CSOT problem (Eq. 11), stated once and checked, in the solver's own layout.

    min  <-log P, Q> + kappa_P Omega^P(Q) + kappa_L Omega^L(Q) + epsilon <Q, log Q>
    s.t. Q >= 0,  Q1 <= a,  Q'1 = b = m * prior

B problems of N samples and C classes at once; classes before samples (B, C, N).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from csot.ot.coherence import Coherence
from csot.ot.reduce import Reduce


@dataclass(frozen=True)
class Marginals:
    """Row capacities a (B, N) and column totals b (B, C). Sum a = 1, sum b = budget."""

    a: Tensor
    b: Tensor
    balanced: bool
    """Sum a = sum b: the row constraint is an equality, as in classical transport."""

    @cached_property
    def log_a(self) -> Tensor:
        return self.a.log()

    @cached_property
    def log_b(self) -> Tensor:
        return self.b.log()

    @cached_property
    def some_classes_empty(self) -> bool:
        return bool((self.b == 0).any())


@dataclass(frozen=True)
class Problem:
    """What is to be solved; knows nothing of how."""

    log_probs: Tensor
    marginals: Marginals
    coherence: Coherence | None
    epsilon: float
    reduce: Reduce
