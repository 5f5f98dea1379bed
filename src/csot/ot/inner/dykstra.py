"""Dykstra's algorithm on full matrices (Algorithm S4), the baseline of the paper's timings.

By Lemma 1 its iterates are diagonal scalings of K, which `scaling` uses. This form keeps the
matrices Q, U', U of the appendix, as logarithms.
"""

from __future__ import annotations

import torch
from torch import Tensor

from csot.ot.execution import log_sum_over_samples
from csot.ot.inner.kernel import Kernel
from csot.ot.inner.scaling import InnerSolution, Stopping, column_error, finish


def dykstra(kernel: Kernel, log_v: Tensor, stopping: Stopping) -> InnerSolution:
    """Alternate KL projections onto {Q1 <= a} and {Q'1 = b}. `log_v` is not used."""
    marginals = kernel.marginals
    has_share = (marginals.b > 0)[..., None]
    # Entries of classes without a share must be finite: their corrections would be inf - inf.
    log_k = kernel.log_k(slice(None), torch.empty_like(kernel.absorbed))
    log_q = log_k.clamp_(min=torch.finfo(log_k.dtype).min / 1e6)
    correction_rows = torch.zeros_like(log_q)
    correction_columns = torch.zeros_like(log_q)
    limit = stopping.limit if stopping.fixed is None else stopping.fixed
    iterations = 0
    while iterations < limit:
        corrected = log_q + correction_rows
        log_row_factor = marginals.log_a - corrected.logsumexp(1)
        if not marginals.balanced:
            log_row_factor = log_row_factor.clamp(max=0.0)
        on_rows = corrected + log_row_factor[:, None]
        correction_rows = correction_rows + log_q - on_rows
        corrected = on_rows + correction_columns
        log_column_factor = marginals.log_targets - log_sum_over_samples(
            corrected.clone(), kernel.reduce
        )
        log_q = torch.where(has_share, corrected + log_column_factor[..., None], corrected)
        correction_columns = correction_columns + on_rows - log_q
        iterations += 1
        if stopping.fixed is None and iterations % 10 == 0:
            state = kernel.evaluate(_log_scaling(correction_columns, has_share))
            if bool((column_error(kernel, state) <= stopping.tolerance).all()):
                break
    return finish(kernel, kernel.evaluate(_log_scaling(correction_columns, has_share)), iterations)


def _log_scaling(correction_columns: Tensor, has_share: Tensor) -> Tensor:
    """log v: by Lemma 1 every entry of a column of U is 1/v_k."""
    return torch.where(has_share, -correction_columns, 0.0)[..., 0]
