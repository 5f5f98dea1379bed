"""The Gibbs kernel K = exp(-G/epsilon) in a fast form that neither underflows nor overflows.

Lemma 1: the optimum of  min <G,Q> + epsilon <Q, log Q>  over  Q1 <= a, Q'1 = b  is
diag(u) K diag(v) with u = min(a/(Kv), 1) and v = b/(K'u). The min makes the scale of a row matter,
so rows cannot be shifted to avoid underflow. Instead potentials are kept as logarithms, and K is
*absorbed* around a recent log v0:

    K~_ki = exp(log K_ki + log v0_k - shift_i),   shift_i = max_k (log K_ki + log v0_k),

whose entries are in [0, 1] with a one in every row. For any v near v0 all sums are then plain
matrix-vector products: (Kv)_i = e^shift_i sum_k K~_ki w_k with w = v/v0.

It is float64 whatever the user's dtype: the potentials of a hard problem span many orders of
magnitude, and float32 loses the small eigenvalues of the Hessian. The kernel is one of many arrays,
so this costs little.

Shapes: K (B, C, N), so that sums over few classes are vectorised over many samples; potentials
log u (B, N), log v (B, C).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from csot.ot.execution import Execution, log_sum_over_samples
from csot.ot.numerics import CHUNK, chunks, csr_matrix, flush_, negligible
from csot.ot.problem import Marginals

MAX_DRIFT = 8.0
"""Largest |log v - log v0| before the kernel is absorbed again."""

VANISHING = 1e-22
"""Smaller entries of K~ are set to zero. Even after the largest drift they would be below the
rounding error of float64, and their products would be denormals, which are slow on a CPU."""

SPARSE_CLASSES = 192
SPARSE_DENSITY = 0.06
"""K~ is stored as sparse above this number of classes and below this share of nonzero entries. At
epsilon = 0.1 an entry is zero if its probability is 160 times below the largest of its row."""


@dataclass(frozen=True)
class ScalingState:
    """The result of evaluating log v. `row_scale` is u e^shift, so Q = row_scale * K~ * w;
    `row_mass` is K~w, the row sums without capacities, times e^-shift.

    `column_sums` is 1 for classes without a share, whose target is 1 as well. This avoids log(0)
    and special cases.
    """

    log_v: Tensor
    w: Tensor
    row_mass: Tensor
    row_scale: Tensor
    column_sums: Tensor


class Kernel:
    """K for a batch of problems, absorbed around a recent log v."""

    def __init__(self, log_probs: Tensor, marginals: Marginals, execution: Execution) -> None:
        self.marginals = marginals
        self.reduce = execution.reduce
        self._log_probs = self._gains = log_probs
        self._epsilon = 1.0
        workspace = execution.workspace
        self._space = workspace.empty_like(log_probs)
        batch, n_classes, n = log_probs.shape
        kind = (marginals.a.dtype, marginals.a.device)
        self.absorbed = workspace.empty((batch, n_classes, n), *kind)
        # For one chunk of the samples.
        self.scratch = workspace.empty((batch, n_classes, min(n, CHUNK)), *kind)
        self._log_v0 = torch.full_like(marginals.b, torch.inf)
        self.shift = torch.zeros_like(marginals.a)
        self.max_row_scale = torch.ones_like(marginals.a)
        self._sparse: _Sparse | None = None

    def linearise(self, gradient: Tensor | None, epsilon: float) -> None:
        """Set log K = -G/epsilon for the cost G = -log P + gradient (line 4 of Algorithm 2)."""
        self._gains = self._log_probs
        if gradient is not None:
            self._gains = torch.sub(self._log_probs, gradient, out=self._space)
        self._epsilon = epsilon
        self._log_v0 = torch.full_like(self._log_v0, torch.inf)

    def log_k(self, part: slice, out: Tensor) -> Tensor:
        """log K of some samples, written to `out`."""
        log_k = out.copy_(self._gains[..., part]).div_(self._epsilon)
        if self.marginals.without_share is not None:
            log_k.masked_fill_(self.marginals.without_share.bool()[..., None], -torch.inf)
        return log_k

    def evaluate(self, log_v: Tensor) -> ScalingState:
        """The row scaling that log v implies, and the marginals of the plan they make."""
        drift = log_v - self._log_v0
        if not float(drift.abs().max()) <= MAX_DRIFT:
            self.absorb(log_v)
            drift = torch.zeros_like(log_v)
        w = drift.exp_()
        row_mass = self.times_columns(w)
        row_scale = self.marginals.a / row_mass  # u of Eq. 14, up to the absorbed scales
        if not self.marginals.balanced:
            row_scale = torch.minimum(row_scale, self.max_row_scale, out=row_scale)
        column_sums = self.reduce.sum(self.times_rows(row_scale).mul_(w))
        if self.marginals.without_share is not None:
            column_sums = column_sums + self.marginals.without_share
        return ScalingState(log_v, w, row_mass, row_scale, column_sums)

    def log_u(self, state: ScalingState) -> Tensor:
        """log u = min(log a - log Kv, 0) (Eq. 14), or log a - log Kv if balanced: (B, N)."""
        log_u = self.marginals.log_a - self.shift - state.row_mass.log()
        return log_u if self.marginals.balanced else log_u.clamp_(max=0.0)

    def log_column_sums(self, state: ScalingState) -> Tensor:
        """log of Q'1, computed in the log domain where the plain sums underflow: (B, C)."""
        tiny = negligible(state.w.dtype)
        if float(state.column_sums.min()) > tiny:
            return state.column_sums.log()
        log_q = self.log_k(slice(None), torch.empty_like(self.absorbed))
        log_q += self.log_u(state)[:, None]
        logs = log_sum_over_samples(log_q, self.reduce) + state.log_v
        if self.marginals.without_share is None:
            return logs
        return torch.where(self.marginals.b > 0, logs, 0.0)

    def row_sums(self, state: ScalingState) -> Tensor:
        """Q1: (B, N)."""
        return state.row_scale * self.times_columns(state.w)

    def plan(self, state: ScalingState, out: Tensor) -> Tensor:
        """diag(u) K diag(v), written to `out`."""
        for part in chunks(out.shape[-1]):
            scaled = self.scaled(self.absorbed[..., part], state.row_scale[:, part])
            flush_(out[..., part].copy_(scaled.mul_(state.w[..., None])), negligible(out.dtype))
        return out

    def best_class(self, state: ScalingState) -> Tensor:
        """argmax_k of K_ki v_k, well defined even in rows whose mass underflows: (B, N)."""
        return (self.absorbed * state.w[..., None]).max(1).indices

    def scaled(self, entries: Tensor, factors: Tensor) -> Tensor:
        """Entries (B, C, n) times one factor per sample (B, n), in scratch memory."""
        return torch.mul(entries, factors[:, None], out=self.scratch[..., : entries.shape[-1]])

    def absorb(self, log_v: Tensor) -> None:
        """Centre K~ on log v."""
        for part in chunks(self.absorbed.shape[-1]):
            entries = self.log_k(part, self.absorbed[..., part]).add_(log_v[..., None])
            shift = torch.amax(entries, 1, out=self.shift[:, part])
            flush_(entries.sub_(shift[:, None]).exp_(), VANISHING)
        # Where u = 1. Flushed as K~ is, to avoid denormal products.
        self.max_row_scale = flush_(self.shift.exp(), negligible(log_v.dtype))
        self._log_v0 = log_v
        self._sparse = _Sparse.of(self.absorbed) if self._many_classes else None

    @property
    def _many_classes(self) -> bool:
        return len(self.absorbed) == 1 and self.absorbed.shape[1] > SPARSE_CLASSES

    def times_columns(self, w: Tensor) -> Tensor:
        """sum_k K~_ki w_k: (B, C) -> (B, N)."""
        if self._sparse is not None:
            return (self._sparse.by_sample @ w[0])[None]
        if len(w) == 1:
            return torch.mv(self.absorbed[0].mT, w[0])[None]
        return torch.bmm(w[:, None], self.absorbed)[:, 0]

    def squares_times_rows(self, u: Tensor) -> Tensor:
        """sum_i K~_ki^2 u_i: (B, N) -> (B, C)."""
        if self._sparse is not None:
            return (self._sparse.by_class_squared @ u[0])[None]
        total = torch.zeros_like(self._log_v0)
        for part in chunks(u.shape[-1]):
            entries = self.absorbed[..., part]
            space = self.scratch[..., : entries.shape[-1]]
            squares = torch.mul(entries, entries, out=space)
            total += (squares @ u[:, part, None])[..., 0]
        return total

    def times_rows(self, u: Tensor) -> Tensor:
        """sum_i K~_ki u_i: (B, N) -> (B, C)."""
        if self._sparse is not None:
            return (self._sparse.by_class @ u[0])[None]
        if len(u) == 1:
            return torch.mv(self.absorbed[0], u[0])[None]
        return torch.bmm(self.absorbed, u[..., None])[..., 0]


@dataclass(frozen=True)
class _Sparse:
    """The nonzero entries of one problem's K~ (C, N), in CSR form by class and by sample."""

    by_class: Tensor
    by_sample: Tensor

    @cached_property
    def by_class_squared(self) -> Tensor:
        matrix = self.by_class
        places, squares = (matrix.crow_indices(), matrix.col_indices()), matrix.values().square()
        return torch.sparse_csr_tensor(*places, squares, matrix.shape, check_invariants=False)

    @staticmethod
    def of(absorbed: Tensor) -> _Sparse | None:
        matrix = absorbed[0]
        if int(matrix.count_nonzero()) > SPARSE_DENSITY * matrix.numel():
            return None
        n_classes, n = matrix.shape
        classes, samples = matrix.nonzero(as_tuple=True)
        values = matrix[classes, samples]
        order = samples.argsort(stable=True)
        return _Sparse(
            csr_matrix(classes, samples, values, (n_classes, n)),
            csr_matrix(samples[order], classes[order], values[order], (n, n_classes)),
        )
