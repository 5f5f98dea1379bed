"""The entropic CSOT problem (Eq. 16) in the solver's own layout, after validation.

    min  <-log P, Q> + kappa_P Omega^P(Q) + kappa_L Omega^L(Q) + epsilon <Q, log Q>
    s.t. Q >= 0,  Q1 <= a,  Q'1 = b = m * prior

The problems of the paper are special cases:

    Eq. 1    classical OT            kappa = 0, epsilon = 0, m = 1
    Eq. 3    structure-aware OT      epsilon = 0, m = 1
    Eq. 6    CSOT                    epsilon = 0
    Eq. 12   entropic curriculum OT  kappa = 0

`csot.solve` lists the arguments that make each. B problems of N samples and C classes are solved
together; the shape is (B, C, N). The objective is evaluated in `gcg`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from csot.ot.coherence.terms import Coherence


@dataclass(frozen=True)
class Marginals:
    """Row capacities a (B, N) and column totals b (B, C). Sum a = 1, sum b = budget."""

    a: Tensor
    b: Tensor
    balanced: bool
    """The row constraint is the equality Q1 = a, as in classical transport; needs sum a = sum b."""

    @cached_property
    def log_a(self) -> Tensor:
        return self.a.log()

    @cached_property
    def inverse_a(self) -> Tensor:
        return 1 / self.a

    @cached_property
    def without_share(self) -> Tensor | None:
        """1 for classes whose total is zero, which are left out; None if there are none."""
        empty = self.b == 0
        return empty.to(self.b.dtype) if bool(empty.any()) else None

    @cached_property
    def targets(self) -> Tensor:
        """b, but 1 for classes without a share, whose column sum `Kernel.evaluate` sets to 1."""
        return self.b if self.without_share is None else self.b + self.without_share

    @cached_property
    def log_targets(self) -> Tensor:
        return self.targets.log()

    @cached_property
    def inverse_targets(self) -> Tensor:
        return 1 / self.targets


@dataclass(frozen=True)
class Problem:
    """What is to be solved. How it is executed is in `Execution`."""

    log_probs: Tensor
    marginals: Marginals
    coherence: Coherence | None
    epsilon: float
