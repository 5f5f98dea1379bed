"""The solution of a transport problem: what is computed is stored, the rest is derived."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from csot.ot.array_adapter import Array, as_tensor
from csot.ot.execution import OneShard, Reduce
from csot.ot.problem import Marginals


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """A coupling of N samples to C classes, and how accurate it is.

    Arrays have the type of the input (NumPy or torch). For a batch of problems every array has a
    leading axis B, and `objective`, `gap`, `marginal_error`, `converged` are arrays (B,);
    for a single problem they are plain numbers.
    """

    coupling: Array
    """Q (N, C): how much of each sample goes to each class."""
    labels: Array
    """(N,) argmax_k Q_ik, the pseudo label (also defined where a row has no mass)."""
    row_weights: Array
    """a (N,): the capacity of each row, summing to one; 1/N unless given."""
    class_prior: Array
    """(C,): the share of the budget that each class receives."""
    budget: float
    """m: the total mass of the coupling, and the share of samples selected."""
    log_u: Array
    """(N,) log of the row scaling of the last inner problem (Lemma 1)."""
    log_v: Array
    """(C,) log of its column scaling; a warm start for a similar problem."""
    objective_trace: Array
    """Objective after each outer step: (T,), or (T, B) for a batch."""
    gap: float | Array
    """GCG gap at the last step, in the units of the objective. If `converged` and the problem is
    convex, the objective is at most this far from its minimum."""
    marginal_error: float | Array
    """Largest relative violation of a row or column constraint."""
    converged: bool | Array
    """Whether gap and marginals are within their tolerances."""
    outer_iterations: int
    """Steps of generalised conditional gradient (Algorithm 2)."""
    inner_iterations: int
    """Steps of the inner method, over all outer steps."""
    method: str
    """The inner method that was used."""
    reduce: Reduce = field(default_factory=OneShard)
    """Gives access to the rows of other processes, for `selected`."""

    @property
    def iterations(self) -> int:
        """Outer iterations."""
        return self.outer_iterations

    @cached_property
    def objective(self) -> float | Array:
        """The entropic objective (Eq. 16) at the coupling."""
        last = self.objective_trace[-1]
        return last if self._batched else float(last)

    @cached_property
    def confidence(self) -> Array:
        """(N,) max_k Q_ik / a_i in [0, 1]: how confidently and completely a sample is allocated."""
        coupling = as_tensor("coupling", self.coupling)
        capacity = as_tensor("row_weights", self.row_weights)
        return self._like_input((coupling.amax(-1) / capacity).clamp(0.0, 1.0))

    @cached_property
    def selected(self) -> Array:
        """(N,) the floor(m N) most confident samples (Eq. 7); earlier rows win ties."""
        confidence, ours = self.reduce.gather(as_tensor("confidence", self.confidence))
        n = confidence.shape[-1]
        # 0.29 * 100 is 28.999...96 in floating point: hence the small constant.
        count = min(n, math.floor(self.budget * n + 1e-9))
        order = torch.sort(confidence, dim=-1, descending=True, stable=True).indices
        mask = torch.zeros_like(confidence, dtype=torch.bool)
        mask.scatter_(-1, order[..., :count], True)
        return self._like_input(mask[..., ours])

    @property
    def _batched(self) -> bool:
        return self.coupling.ndim == 3

    def _like_input(self, x: torch.Tensor) -> Array:
        return x.numpy() if isinstance(self.coupling, np.ndarray) else x

    def __repr__(self) -> str:
        shape = "x".join(str(n) for n in self.coupling.shape)
        if self._batched:
            done = int(as_tensor("converged", self.converged).sum())
            state = f"{done} of {len(self.coupling)} converged"
        else:
            state = f"objective={self.objective:.6g}, gap={self.gap:.2g}, "
            state += f"converged={self.converged}"
        return (
            f"Plan({shape}, budget={self.budget:g}, {state}, method={self.method!r}, "
            f"outer_iterations={self.outer_iterations}, inner_iterations={self.inner_iterations})"
        )


# Rounding a nearly feasible plan onto its polytope, after Altschuler et al. (2017).
#
# Rows above their capacity and columns above their total are scaled down; the mass then missing
# from the columns is distributed over the slack of the rows, which suffices since sum a >= sum b.


def marginal_error(plan: Tensor, marginals: Marginals, reduce: Reduce) -> Tensor:
    """Largest relative violation of Q1 <= a (= a if balanced) or Q'1 = b, per problem: (B,)."""
    rows = plan.sum(1, dtype=marginals.a.dtype) / marginals.a - 1
    if marginals.balanced:
        rows = rows.abs()
    columns = (reduce.sum(plan.sum(-1, dtype=marginals.b.dtype)) - marginals.b).abs() / marginals.b
    columns = columns.nan_to_num(0.0, torch.inf)
    return torch.maximum(reduce.max(rows.amax(-1)).clamp(min=0), columns.amax(-1))


def round_onto(plan: Tensor, marginals: Marginals, reduce: Reduce) -> Tensor:
    """A feasible plan close to `plan` (B, C, N), in place."""
    a, b = marginals.a, marginals.b
    plan.mul_((a / plan.sum(1)).clamp_(max=1.0).nan_to_num_(1.0)[:, None])
    columns = reduce.sum(plan.sum(-1))
    plan.mul_((b / columns).clamp_(max=1.0).nan_to_num_(1.0)[..., None])
    slack = (a - plan.sum(1)).clamp_(min=0)
    missing = (b - reduce.sum(plan.sum(-1))).clamp_(min=0)
    total = reduce.sum(slack.sum(-1)).clamp(min=torch.finfo(a.dtype).tiny)
    return plan.addcmul_(missing[..., None], (slack / total[:, None])[:, None])
