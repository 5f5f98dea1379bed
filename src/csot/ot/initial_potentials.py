"""The potentials log v from which the first inner problem starts."""

from __future__ import annotations

import torch
from torch import Tensor

from csot.ot.execution import Execution, Reduce
from csot.ot.inner.kernel import Kernel
from csot.ot.inner.scaling import InnerMethod, Stopping
from csot.ot.problem import Problem

MAX_COST_RANGE = 200.0
"""Largest cost in units of epsilon. For larger costs the iteration starts from a rough solution for
an epsilon `EPSILON_FACTOR` times larger, recursively: it would converge slowly otherwise."""

EPSILON_FACTOR = 4
ROUGH = Stopping(tolerance=1e-2, limit=100)

GUESS_ROWS = 1024
"""Number of rows from which the first potentials are estimated."""


def initial_potentials(
    problem: Problem, execution: Execution, kernel: Kernel, inner: InnerMethod
) -> tuple[Tensor, int]:
    """log v (B, C) to start from, and the inner iterations it took (epsilon scaling)."""
    reduce = execution.reduce
    largest_cost = float(reduce.max(-problem.log_probs.amin().reshape(1)))
    epsilons = [problem.epsilon]
    while largest_cost > MAX_COST_RANGE * epsilons[-1]:
        epsilons.append(epsilons[-1] * EPSILON_FACTOR)
    log_v, iterations = _estimate(problem, reduce, epsilons[-1]), 0
    for epsilon in reversed(epsilons[1:]):
        kernel.linearise(None, epsilon)
        solution = inner(kernel, log_v, ROUGH)
        log_v = solution.state.log_v * EPSILON_FACTOR
        iterations += solution.iterations
    return log_v, iterations


def _estimate(problem: Problem, reduce: Reduce, epsilon: float) -> Tensor:
    """log v with which each class, without the others, would just fill its best rows: (B, C).

    If k rows make up the total of the class, K_i v = a holds at its k-th best row. Estimated from
    some of the rows, the same ones however they are sharded. (Algorithm 1 starts from v = 1.)
    """
    b, log_probs = problem.marginals.b, problem.log_probs
    sizes, mine = reduce.gather(torch.tensor([log_probs.shape[-1]], device=b.device))
    total, before = int(sizes.sum()), int(sizes[: mine.start].sum())
    stride = -(-total // GUESS_ROWS)
    sample, _ = reduce.gather(log_probs[..., -before % stride :: stride])
    count = sample.shape[-1]
    rank = (b * count).round_().long().clamp_(1, count) - 1
    best = sample.topk(int(rank.max()) + 1, dim=-1).values
    kth = best.gather(-1, rank[..., None])[..., 0].to(b.dtype)
    return torch.where(b > 0, b, 1.0).clamp_(max=1 / total).log_() - kth / epsilon
