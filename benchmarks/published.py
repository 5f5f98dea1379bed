"""CSOT solved the way the paper states it, in PyTorch: the baseline of the benchmarks.

Algorithm 2 (generalised conditional gradient) around Algorithm 1 (scaling iteration) of "CSOT:
Curriculum and Structure-Aware Optimal Transport for Learning with Noisy Labels", with the
paper's settings: 10 outer and 100 inner iterations, all of them run, from the same start each
time, in float64 and outside the log domain. Two points are read as they must have been meant:
the linearised cost is G = C + kappa grad Omega, and the similarity S has a zero diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

ARMIJO_SLOPE = 1e-4
ROUNDING = 1e-15  # relative; ``lean`` counts values this close as equal in the Armijo rule
MOST_HALVINGS = 30
SMALLEST_PROBABILITY = 2.0**-149  # the smallest positive float32; keeps the cost finite


@dataclass(frozen=True)
class PublishedResult:
    """A plan, (N, C) in float64, and the value of the entropic CSOT objective there."""

    coupling: Tensor
    objective: float


@torch.no_grad()
def solve_published(
    pred_probs: Tensor,
    features: Tensor,
    labels: Tensor,
    budget: float,
    epsilon: float = 0.1,
    kappa: float = 1.0,
    outer: int = 10,
    inner: int = 100,
    lean: bool = False,
    dykstra: bool = False,
) -> PublishedResult:
    """Entropic CSOT by Algorithm 2, around Algorithm 1 or, with ``dykstra``, Algorithm S4.

    min <C, Q> + kappa (Omega^P(Q) + Omega^L(Q)) + epsilon <Q, log Q>
    subject to  Q 1 <= 1/N,  Q^T 1 = budget/C

    for ``pred_probs`` P (N, C), C = -log P, ``features`` (N, D) and ``labels`` (N,), of which a
    negative one means none. Where the linearised problem overflows or no step satisfies the
    Armijo rule, the plan stays as it is. All iterations run, as the paper has it.

    By default everything is computed as it is written: the coherence as <S, (P*Q)(P*Q)^T>, scalings
    as products with diagonal matrices, the Armijo rule by backtracking. ``lean`` evaluates <S X, X>
    and never forms X X^T, scales rows and columns, and lets the Armijo rule pass values equal up to
    rounding instead of backtracking on noise: what a careful author would do with the same
    algorithm.
    """
    P = pred_probs.double()
    N, C = P.shape
    a = P.new_full((N,), 1.0 / N)
    b = P.new_full((C,), budget / C)
    cost = -P.clamp_min(SMALLEST_PROBABILITY).log()
    S = zero_diagonal_cosine_similarity(features.double())
    L = one_hot(labels, P)

    def gradient_at(Q: Tensor) -> Tensor:
        """The gradient of all of the objective but the entropy."""
        return cost - 2.0 * kappa * (P * (S @ (P * Q)) + L * (S @ (L * Q)))

    def value_at(Q: Tensor) -> float:
        return _value(Q, cost, S, P, L, epsilon, kappa)

    def lean_value_at(Q: Tensor) -> float:
        coherence = ((gradient_at(Q) - cost) * Q).sum() / 2
        return float((cost * Q).sum() + coherence + epsilon * torch.xlogy(Q, Q).sum())

    evaluate = lean_value_at if lean else value_at
    Q = torch.outer(a, b)
    value = evaluate(Q)
    for _ in range(outer):
        gradient = gradient_at(Q)
        if dykstra:
            target = dykstra_iteration(gradient, a, b, epsilon, inner)
        else:
            target = scaling_iteration(gradient, a, b, epsilon, inner, lean)
        direction = target - Q
        entropy_gradient = epsilon * (1.0 + Q.clamp_min(torch.finfo(Q.dtype).tiny).log())
        slope = float(((gradient + entropy_gradient) * direction).sum())
        rounding = ROUNDING * max(1.0, abs(value)) if lean else 0.0
        step = armijo_step(evaluate, Q, direction, value, slope, rounding)
        if step is not None:
            Q, value = step
    return PublishedResult(coupling=Q, objective=value)


def objective_of(
    Q: Tensor,
    pred_probs: Tensor,
    features: Tensor,
    labels: Tensor,
    epsilon: float = 0.1,
    kappa: float = 1.0,
) -> float:
    """The entropic CSOT objective at any plan, for comparing plans."""
    P = pred_probs.double()
    cost = -P.clamp_min(SMALLEST_PROBABILITY).log()
    S = zero_diagonal_cosine_similarity(features.double())
    return _value(Q, cost, S, P, one_hot(labels, P), epsilon, kappa)


def _value(
    Q: Tensor, cost: Tensor, S: Tensor, P: Tensor, L: Tensor, epsilon: float, kappa: float
) -> float:
    by_P, by_L = P * Q, L * Q
    coherence = -(S * (by_P @ by_P.T)).sum() - (S * (by_L @ by_L.T)).sum()
    entropy = torch.xlogy(Q, Q).sum()
    return float((cost * Q).sum() + kappa * coherence + epsilon * entropy)


def zero_diagonal_cosine_similarity(features: Tensor) -> Tensor:
    """The dense similarity S, (N, N), of features (N, D), without self-similarity."""
    directions = torch.nn.functional.normalize(features, dim=1)
    return (directions @ directions.T).fill_diagonal_(0.0)


def one_hot(labels: Tensor, like: Tensor) -> Tensor:
    """The label matrix L, shaped as ``like`` (N, C); a row of zeros for a negative label."""
    L = torch.zeros_like(like)
    labelled = (labels >= 0).nonzero().squeeze(1)
    L[labelled, labels[labelled]] = 1.0
    return L


def scaling_iteration(
    cost: Tensor, a: Tensor, b: Tensor, epsilon: float, iterations: int, lean: bool
) -> Tensor:
    """Entropic curriculum transport by Algorithm 1; returns the plan diag(u) K diag(v), (N, C).

    min <C, Q> + epsilon <Q, log Q>  subject to  Q 1 <= a,  Q^T 1 = b

    The diagonal matrices are formed and multiplied as Algorithm 1 writes them, and as the authors'
    code does; ``lean`` scales rows and columns instead.
    """
    K = torch.exp(cost / -epsilon)
    if lean:
        K_a, K_b_transposed = K / a[:, None], K.T.contiguous() / b[:, None]
    else:
        K_a, K_b_transposed = torch.diag(1 / a) @ K, torch.diag(1 / b) @ K.T
    u, v = torch.ones_like(a), torch.ones_like(b)
    for _ in range(iterations):
        u = (1.0 / (K_a @ v)).clamp_max(1.0)
        v = 1.0 / (K_b_transposed @ u)
    return u[:, None] * K * v if lean else torch.diag(u) @ K @ torch.diag(v)


def dykstra_iteration(
    cost: Tensor, a: Tensor, b: Tensor, epsilon: float, iterations: int
) -> Tensor:
    """The same problem by Algorithm S4, on full matrices: Q', U', Q and U are (N, C).

    After each iteration Q is that of Algorithm 1 (Lemma 1).
    """
    Q = torch.exp(cost / -epsilon)
    U_rows, U = torch.ones_like(Q), torch.ones_like(Q)
    for _ in range(iterations):
        Q_rows = Q * U_rows
        Q_rows *= (a / Q_rows.sum(1)).clamp_max(1.0)[:, None]
        U_rows *= Q / Q_rows
        Q = Q_rows * U
        Q *= b / Q.sum(0)
        U *= Q_rows / Q
    return Q


def armijo_step(
    evaluate: Callable[[Tensor], float],
    Q: Tensor,
    direction: Tensor,
    value: float,
    slope: float,
    rounding: float,
) -> tuple[Tensor, float] | None:
    """Backtrack from the full step until F(Q + eta D) <= F(Q) + c1 eta <grad F(Q), D>.

    ``value`` is F(Q) and ``slope`` the inner product. Returns the new plan with its value, or
    nothing when no step qualifies: along an overflown direction, along one that does not descend
    because the inner iterations ended short of the solution, or where nothing is left to gain.
    """
    if not slope <= rounding:  # NaN included
        return None
    eta = 1.0
    for _ in range(MOST_HALVINGS):
        trial = Q + eta * direction
        trial_value = evaluate(trial)
        if trial_value <= value + ARMIJO_SLOPE * eta * slope + rounding:
            return trial, trial_value
        eta *= 0.5
    return None
