"""Minus the Hessian of the semi-dual in log v: diag(Q'1) - sum over saturated rows of QQ'/a.

With the kernel K~ and w = v/v0 (see ``kernel``), and a weight r_i = u_i e^shift_i sqrt(s_i/a_i) for
each row, where s_i in [0, 1] is the degree to which it counts as saturated, this is

    diag(Q'1) - W R R' W,   R = K~ diag(r),   W = diag(w).

Rows whose capacity does not bind have r = 0. Where they are the majority, they are left out.
"""

from __future__ import annotations

import torch
from torch import Tensor

from csot.ot.inner.kernel import Kernel, ScalingState
from csot.ot.inner.rules import RULES
from csot.ot.numerics import chunks

SELECT_WORK = 8_000_000
"""N C^2 above which rows of weight zero are left out of the product."""


class Curvature:
    """Minus the Hessian of a batch of problems, (B, C, C), as a matrix or as an operator."""

    def __init__(self, kernel: Kernel, state: ScalingState, damping: Tensor | None) -> None:
        self._kernel = kernel
        self._state = state
        saturation = saturation_of(kernel, state, damping)
        self._weight = (saturation * kernel.marginals.inverse_a).sqrt_().mul_(state.row_scale)
        self._selected = self._select()

    def matrix(self) -> Tensor:
        """The whole matrix (B, C, C)."""
        w, reduce = self._state.w, self._kernel.reduce
        curvature = reduce.sum(self._products()).mul_(w[..., None]).mul_(-w[:, None])
        curvature.diagonal(dim1=-2, dim2=-1).add_(self._state.column_sums)
        return curvature

    def times(self, x: Tensor) -> Tensor:
        """Product with a vector (B, C), by two matrix-vector products."""
        kernel, w = self._kernel, self._state.w
        if self._selected is not None:
            through = torch.mv(self._selected, torch.mv(self._selected.T, (w * x)[0]))[None]
        else:
            through = kernel.times_rows(self._weight**2 * kernel.times_columns(w * x))
        return self._state.column_sums * x - w * kernel.reduce.sum(through)

    def diagonal(self) -> Tensor:
        """The diagonal (B, C), bounded away from zero, for use as a preconditioner."""
        sums = self._state.column_sums
        if self._selected is not None:
            squares = torch.linalg.vecdot(self._selected, self._selected)[None]
        else:
            squares = self._kernel.squares_times_rows(self._weight**2)
        own = self._kernel.reduce.sum(squares) * self._state.w**2
        return torch.maximum(sums - own, RULES.min_diagonal * sums)

    def _select(self) -> Tensor | None:
        """R of a single problem without its zero columns, if at least half are zero: (C, n)."""
        kernel, weight = self._kernel, self._weight
        batch, n_classes, n = kernel.absorbed.shape
        if batch > 1 or kernel.marginals.balanced or n * n_classes**2 <= SELECT_WORK:
            return None
        binding = weight[0].nonzero()[:, 0]
        if 2 * len(binding) > n:
            return None
        return kernel.absorbed[0].index_select(-1, binding).mul_(weight[0, binding])

    def _products(self) -> Tensor:
        """R R': (B, C, C)."""
        if self._selected is not None:
            return (self._selected @ self._selected.T)[None]
        absorbed, weight = self._kernel.absorbed, self._weight
        products = absorbed.new_zeros(*absorbed.shape[:2], absorbed.shape[1])
        for part in chunks(weight.shape[-1]):
            rows = self._kernel.scaled(absorbed[..., part], weight[:, part])
            products.baddbmm_(rows, rows.mT)
        return products


def saturation_of(kernel: Kernel, state: ScalingState, damping: Tensor | None) -> Tensor:
    """The degree to which the capacity of each row counts as binding, in [0, 1]: (B, N).

    Undamped: 1 where it binds, 0 where u = 1. The semi-dual's curvature jumps there, so with
    ``damping`` (B,) rows that barely bind count in part. With full damping none counts, and a
    Newton step becomes a scaling step.
    """
    balanced = kernel.marginals.balanced
    if damping is None:
        if balanced:
            return torch.ones_like(state.row_scale)
        return (state.row_scale < kernel.max_row_scale).to(state.row_scale.dtype)
    keep = 1 - damping[:, None]
    if balanced:
        return keep.expand_as(state.row_scale)
    depth = -kernel.log_u(state) / (RULES.kink_width * damping[:, None])
    return keep * depth.nan_to_num_(0.0, 1.0).clamp_(max=1.0)
