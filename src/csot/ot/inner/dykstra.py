"""Dykstra's algorithm on full matrices (Algorithm 3), the paper's own comparison.

Lemma 1 shows that its iterates are diagonal scalings of K, which ``scaling`` exploits; this form
keeps the three matrices Q, U', U as the appendix writes them, in logs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from csot.ot.inner.kernel import Kernel
from csot.ot.inner.newton import InnerSolution, Stopping, column_error, finish
from csot.ot.reduce import log_sum_over_samples


def dykstra(kernel: Kernel, log_v: Tensor, stopping: Stopping) -> InnerSolution:
    """Alternate KL projections onto {Q1 <= a} and {Q'1 = b}. A warm start would not be Dykstra."""
    marginals = kernel.marginals
    takes_part = (marginals.b > 0)[..., None]
    # A class without a share must stay finite, or its corrections would be inf - inf.
    log_k = kernel.log_k(slice(None), torch.empty_like(kernel.absorbed))
    log_q = log_k.clamp_(min=torch.finfo(log_k.dtype).min / 1e6)
    correction_rows = torch.zeros_like(log_q)
    correction_columns = torch.zeros_like(log_q)
    limit = stopping.limit if stopping.fixed is None else stopping.fixed
    steps = 0
    while steps < limit:
        lifted = log_q + correction_rows
        excess = marginals.log_a - lifted.logsumexp(1)
        if not marginals.balanced:
            excess = excess.clamp(max=0.0)
        on_rows = lifted + excess[:, None]
        correction_rows = correction_rows + log_q - on_rows
        lifted = on_rows + correction_columns
        missing = marginals.log_targets - log_sum_over_samples(lifted.clone(), kernel.reduce)
        log_q = torch.where(takes_part, lifted + missing[..., None], lifted)
        correction_columns = correction_columns + on_rows - log_q
        steps += 1

        if stopping.fixed is None and steps % 10 == 0:
            state = kernel.look(_log_scaling(correction_columns, takes_part))
            if bool((column_error(kernel, state) <= stopping.tolerance).all()):
                break
    return finish(kernel, kernel.look(_log_scaling(correction_columns, takes_part)), steps)


def _log_scaling(correction_columns: Tensor, takes_part: Tensor) -> Tensor:
    """log v: by Lemma 1 every entry of a column of U is 1/v_k."""
    return torch.where(takes_part, -correction_columns, 0.0)[..., 0]
