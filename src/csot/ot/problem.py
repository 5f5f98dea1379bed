"""The entropic CSOT problem (Eq. 11), stated once and checked, in the solver's own layout.

    min  <-log P, Q> + kappa_P Omega^P(Q) + kappa_L Omega^L(Q) + epsilon <Q, log Q>
    s.t. Q >= 0,  Q1 <= a,  Q'1 = b = m * prior

B problems of N samples and C classes at once; classes before samples (B, C, N).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from csot.ot.coherence.terms import Coherence
from csot.ot.reduce import Reduce
from csot.ot.workspace import Memory


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
    def inverse_a(self) -> Tensor:
        return 1 / self.a

    @cached_property
    def without_share(self) -> Tensor | None:
        """1 for classes whose total is zero, which take no part; None if every class does."""
        empty = self.b == 0
        return empty.to(self.b.dtype) if bool(empty.any()) else None

    @cached_property
    def targets(self) -> Tensor:
        """b, but 1 for classes without a share: the kernel counts 1 for them too (see ``look``)."""
        return self.b if self.without_share is None else self.b + self.without_share

    @cached_property
    def log_targets(self) -> Tensor:
        return self.targets.log()

    @cached_property
    def inverse_targets(self) -> Tensor:
        return 1 / self.targets


@dataclass(frozen=True)
class Problem:
    """What is to be solved; knows nothing of how."""

    log_probs: Tensor
    marginals: Marginals
    coherence: Coherence | None
    epsilon: float
    reduce: Reduce
    memory: Memory
