"""Rounding a nearly feasible plan onto its polytope, after Altschuler et al. (2017).

Rows above their capacity and columns above their total are scaled down; the mass then missing from
the columns is distributed over the slack of the rows, which suffices since sum a >= sum b.
"""

from __future__ import annotations

import torch
from torch import Tensor

from csot.ot.execution import Reduce
from csot.ot.problem import Marginals


def marginal_error(plan: Tensor, marginals: Marginals, reduce: Reduce) -> Tensor:
    """Largest relative violation of Q1 <= a (= a if balanced) or Q'1 = b, per problem: (B,)."""
    rows = plan.sum(1, dtype=marginals.a.dtype) / marginals.a - 1
    if marginals.balanced:
        rows = rows.abs()
    columns = (reduce.sum(plan.sum(-1, dtype=marginals.b.dtype)) - marginals.b).abs() / marginals.b
    columns = columns.nan_to_num(0.0, torch.inf)
    return torch.maximum(reduce.max(rows.amax(-1)).clamp(min=0), columns.amax(-1))


def round_onto(plan: Tensor, marginals: Marginals, reduce: Reduce) -> Tensor:
    """A feasible plan close to ``plan`` (B, C, N), in place."""
    a, b = marginals.a, marginals.b
    plan.mul_((a / plan.sum(1)).clamp_(max=1.0).nan_to_num_(1.0)[:, None])
    columns = reduce.sum(plan.sum(-1))
    plan.mul_((b / columns).clamp_(max=1.0).nan_to_num_(1.0)[..., None])
    slack = (a - plan.sum(1)).clamp_(min=0)
    missing = (b - reduce.sum(plan.sum(-1))).clamp_(min=0)
    total = reduce.sum(slack.sum(-1)).clamp(min=torch.finfo(a.dtype).tiny)
    return plan.addcmul_(missing[..., None], (slack / total[:, None])[:, None])
