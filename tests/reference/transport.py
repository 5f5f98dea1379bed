"""Curriculum and structure-aware optimal transport in NumPy float64, straight from the paper.

Every function restates one equation or algorithm of "CSOT: Curriculum and Structure-Aware
Optimal Transport for Learning with Noisy Labels". They are written for clarity, not for speed.

Symbols, used throughout:

    N, C        numbers of samples and of classes
    cost        (N, C)   C = -log P
    a           (N,)     row weights, an upper bound on the row sums of the plan
    b           (C,)     column sums of the plan, budget * class prior
    Q           (N, C)   the plan (coupling matrix)
    S           (N, N)   cosine similarity of the features, zero on the diagonal
    P           (N, C)   predicted probabilities
    L           (N, C)   one-hot given labels; a row of zeros where no label is given

Matrices that may underflow are kept as logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import bisect, minimize
from scipy.special import xlogy

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

SMALLEST_PROBABILITY = 2.0**-149  # the smallest positive float32
NO_LABEL = -1


# Inputs ------------------------------------------------------------------------------------------


def cost_matrix(P: FloatArray) -> FloatArray:
    """The cost C = -log P, (N, C); a probability of zero counts as the smallest float32."""
    return -np.log(np.maximum(P, SMALLEST_PROBABILITY))


def one_hot(labels: IntArray, classes: int) -> FloatArray:
    """The label matrix L, (N, classes); samples labelled ``NO_LABEL`` get a row of zeros."""
    L = np.zeros((len(labels), classes))
    for i, label in enumerate(labels):
        if label != NO_LABEL:
            L[i, label] = 1.0
    return L


def cosine_similarity(features: FloatArray) -> FloatArray:
    """The similarity S, (N, N), of features (N, D).

    S_ij = <f_i, f_j> / (|f_i| |f_j|) for i != j, and S_ii = 0. A feature of norm zero is similar
    to nothing: its row and column are zeros.
    """
    norms = np.linalg.norm(features, axis=1)
    directions = np.zeros_like(features)
    has_direction = norms > 0
    directions[has_direction] = features[has_direction] / norms[has_direction, None]
    S: FloatArray = directions @ directions.T
    np.fill_diagonal(S, 0.0)
    return S


# Objective ---------------------------------------------------------------------------------------


def coherence_value(S: FloatArray, weights: FloatArray, Q: FloatArray) -> float:
    """The coherence term Omega^W(Q) = -<S, (W * Q)(W * Q)^T> for weights W, (N, C)."""
    weighted = weights * Q
    return -float(np.sum(S * (weighted @ weighted.T)))


def coherence_gradient(S: FloatArray, weights: FloatArray, Q: FloatArray) -> FloatArray:
    """The gradient of Omega^W at Q, (N, C): -W * ((S + S^T)(W * Q))."""
    gradient: FloatArray = -weights * ((S + S.T) @ (weights * Q))
    return gradient


def objective(
    Q: FloatArray,
    cost: FloatArray,
    epsilon: float,
    kappa_prediction: float,
    kappa_label: float,
    S: FloatArray,
    P: FloatArray,
    L: FloatArray,
) -> float:
    """The entropic CSOT objective, with 0 log 0 = 0.

    <C, Q> + kappa_P Omega^P(Q) + kappa_L Omega^L(Q) + epsilon <Q, log Q>
    """
    return (
        float(np.sum(cost * Q))
        + kappa_prediction * coherence_value(S, P, Q)
        + kappa_label * coherence_value(S, L, Q)
        + epsilon * float(np.sum(xlogy(Q, Q)))
    )


# Entropic transport with a linear cost -----------------------------------------------------------


def sinkhorn(
    cost: FloatArray, a: FloatArray, b: FloatArray, epsilon: float, iterations: int
) -> FloatArray:
    """Classical entropic transport by Sinkhorn's algorithm, in logarithms; returns Q, (N, C).

    min <C, Q> + epsilon <Q, log Q>  subject to  Q 1 = a,  Q^T 1 = b,  where sum(a) = sum(b):
    u <- a / (K v),  v <- b / (K^T u)  from v = 1, with K = exp(-C / epsilon).
    """
    log_K = -cost / epsilon
    log_a, log_b = _log(a), _log(b)
    log_u, log_v = np.zeros_like(a), np.zeros_like(b)
    for _ in range(iterations):
        log_u = _log_divide(log_a, _log_sum_over_columns(log_K + log_v))
        log_v = _log_divide(log_b, _log_sum_over_rows(log_K + log_u[:, None]))
    return np.exp(log_u[:, None] + log_K + log_v)


def scaling(
    cost: FloatArray, a: FloatArray, b: FloatArray, epsilon: float, iterations: int
) -> FloatArray:
    """Entropic curriculum transport by Algorithm 1, in logarithms; returns Q, (N, C).

    min <C, Q> + epsilon <Q, log Q>  subject to  Q 1 <= a,  Q^T 1 = b:
    u <- min(a / (K v), 1),  v <- b / (K^T u)  from v = 1, with K = exp(-C / epsilon).

    The loop ends early only once v repeats bit by bit, or repeats the one before the last, which
    rounding brings about, an even number of iterations from the end: they would end with the same.
    """
    log_K = -cost / epsilon
    log_a, log_b = _log(a), _log(b)
    log_u, log_v = np.zeros_like(a), np.zeros_like(b)
    last = before_last = b""
    for left in reversed(range(iterations)):
        log_u = np.minimum(_log_divide(log_a, _log_sum_over_columns(log_K + log_v)), 0.0)
        log_v = _log_divide(log_b, _log_sum_over_rows(log_K + log_u[:, None]))
        bits = log_v.tobytes()
        if bits == last or (bits == before_last and left % 2 == 0):
            break
        last, before_last = bits, last
    return np.exp(log_u[:, None] + log_K + log_v)


def dykstra(
    cost: FloatArray, a: FloatArray, b: FloatArray, epsilon: float, iterations: int
) -> FloatArray:
    """Entropic curriculum transport by Dykstra's algorithm on whole matrices; returns Q, (N, C).

    The problem is that of :func:`scaling`; ``a`` and ``b`` must be positive. From Q = K and
    U' = U = 1, every iteration projects onto C1 = {Q 1 <= a} and C2 = {Q^T 1 = b} in turn:

        Q' <- proj_C1(Q * U'),   U' <- U' * Q / Q'
        Q  <- proj_C2(Q' * U),   U  <- U * Q' / Q
    """
    if np.any(a <= 0) or np.any(b <= 0):
        raise ValueError("Dykstra's algorithm divides by the plan: a and b must be positive.")
    log_Q = -cost / epsilon
    log_row_correction = np.zeros_like(cost)
    log_column_correction = np.zeros_like(cost)
    for _ in range(iterations):
        log_Q_rows = _project_rows_below(log_Q + log_row_correction, a)
        log_row_correction = log_row_correction + log_Q - log_Q_rows
        log_Q = _project_columns_onto(log_Q_rows + log_column_correction, b)
        log_column_correction = log_column_correction + log_Q_rows - log_Q
    return np.exp(log_Q)


def _project_rows_below(log_M: FloatArray, a: FloatArray) -> FloatArray:
    """The KL projection of M onto {Q 1 <= a}: diag(min(a / (M 1), 1)) M, in logarithms."""
    log_factor = np.minimum(np.log(a) - _log_sum_over_columns(log_M), 0.0)
    return log_factor[:, None] + log_M


def _project_columns_onto(log_M: FloatArray, b: FloatArray) -> FloatArray:
    """The KL projection of M onto {Q^T 1 = b}: M diag(b / (M^T 1)), in logarithms."""
    return log_M + (np.log(b) - _log_sum_over_rows(log_M))


def curriculum_ot_by_general_solver(
    cost: FloatArray, a: FloatArray, b: FloatArray, epsilon: float
) -> FloatArray:
    """Entropic curriculum transport by a general convex solver on the primal; returns Q, (N, C).

    min <C, Q> + epsilon <Q, log Q>  subject to  Q 1 <= a,  Q^T 1 = b,  Q >= 0

    is handed as it stands to SciPy's SLSQP, which knows nothing of scalings. For up to about
    fifty entries whose optimal values are not vanishingly small the plan is good to 1e-8.
    The variable is Q over its mean entry, which changes the objective by a constant factor and
    by a multiple of the fixed total mass.
    """
    N, C = cost.shape
    mean_entry = b.sum() / (N * C)
    row_sums = np.kron(np.eye(N), np.ones((1, C)))
    column_sums = np.kron(np.ones((1, N)), np.eye(C))
    flat_cost = cost.ravel()

    def value(x: FloatArray) -> float:
        return float(flat_cost @ x + epsilon * np.sum(xlogy(x, x)))

    def gradient(x: FloatArray) -> FloatArray:
        return flat_cost + epsilon * (1.0 + np.log(x))

    rows_below_a = {
        "type": "ineq",
        "fun": lambda x: a / mean_entry - row_sums @ x,
        "jac": lambda x: -row_sums,
    }
    columns_equal_b = {
        "type": "eq",
        "fun": lambda x: column_sums @ x - b / mean_entry,
        "jac": lambda x: column_sums,
    }
    solution = minimize(
        value,
        x0=(np.outer(a, b) / (a.sum() * mean_entry)).ravel(),
        jac=gradient,
        method="SLSQP",
        bounds=[(1e-12, None)] * (N * C),
        constraints=[rows_below_a, columns_equal_b],
        options={"maxiter": 5000, "ftol": 1e-15},
    )
    if not solution.success:
        raise RuntimeError(f"SLSQP did not solve the problem: {solution.message}")
    Q: FloatArray = solution.x.reshape(N, C) * mean_entry
    return Q


# Curriculum and structure-aware transport --------------------------------------------------------


@dataclass(frozen=True)
class ReferenceSolution:
    """A plan found by :func:`csot`, and how it was reached.

    Q                   the plan, (N, C)
    objective_history   the objective at the initial plan and after every outer iteration
    gap                 <grad f(Q), Q - Q~> + g(Q) - g(Q~) >= 0, for f the cost and coherence, g
                        the entropy and Q~ the solution of the problem linearised at Q; it is
                        zero exactly where Q is stationary, and clearly negative only if the
                        inner iterations were too few for Q to be feasible
    settled             whether the plan stopped moving before the outer iterations ran out
    """

    Q: FloatArray
    objective_history: tuple[float, ...]
    gap: float
    settled: bool


def csot(
    P: FloatArray,
    features: FloatArray,
    labels: IntArray,
    budget: float,
    class_prior: FloatArray,
    row_weights: FloatArray,
    epsilon: float,
    kappa_prediction: float,
    kappa_label: float,
    outer: int = 200,
    inner: int = 20000,
) -> ReferenceSolution:
    """Entropic CSOT by the generalised conditional gradient method (Algorithm 2).

    min <C, Q> + kappa_P Omega^P(Q) + kappa_L Omega^L(Q) + epsilon <Q, log Q>
    subject to  Q 1 <= a,  Q^T 1 = b

    with C = -log P, a = ``row_weights`` (N,) of sum one and b = ``budget * class_prior`` (C,).
    From Q = a b^T, until the plan stops moving or ``outer`` iterations are over:

        G  <- C + kappa_P grad Omega^P(Q) + kappa_L grad Omega^L(Q)
        Q~ <- argmin <G, Q> + epsilon <Q, log Q>   (``inner`` iterations of Algorithm 1)
        Q  <- (1 - eta) Q + eta Q~                 (eta in [0, 1] minimises the objective)

    So close to the solution that rounding hides the slope, eta stays what it was before.
    At a budget of one with very sharp predictions the scaling converges slowly, and ``inner``
    must grow before the row sums of the plan respect a; all else is good to rounding.
    """
    cost, S, L = cost_matrix(P), cosine_similarity(features), one_hot(labels, P.shape[1])
    a, b = row_weights, budget * class_prior

    def value(Q: FloatArray) -> float:
        return objective(Q, cost, epsilon, kappa_prediction, kappa_label, S, P, L)

    def smooth_gradient(Q: FloatArray) -> FloatArray:
        return (
            cost
            + kappa_prediction * coherence_gradient(S, P, Q)
            + kappa_label * coherence_gradient(S, L, Q)
        )

    def value_between(Q: FloatArray, target: FloatArray, step: float) -> float:
        return value(between(Q, target, step))

    def slope_between(Q: FloatArray, target: FloatArray, step: float) -> float:
        here, direction = between(Q, target, step), target - Q
        return float(
            np.sum(smooth_gradient(here) * direction)
            + epsilon * np.sum(direction + xlogy(direction, here))
        )

    def linearised_solution(Q: FloatArray) -> FloatArray:
        return scaling(smooth_gradient(Q), a, b, epsilon, inner)

    Q = np.outer(a, b)
    history = [value(Q)]
    step = 1.0
    settled = False
    for _ in range(outer):
        target = linearised_solution(Q)
        if abs(slope_between(Q, target, 0.0)) > 1e-13:
            step = best_step(partial(value_between, Q, target), partial(slope_between, Q, target))
        moved = between(Q, target, step)
        largest_move = float(np.max(np.abs(moved - Q), initial=0.0))
        Q = moved
        history.append(value(Q))
        if largest_move <= 1e-12 * float(np.max(Q, initial=0.0)):
            settled = True
            break

    target = linearised_solution(Q)
    gap = float(np.sum(smooth_gradient(Q) * (Q - target))) + epsilon * float(
        np.sum(xlogy(Q, Q)) - np.sum(xlogy(target, target))
    )
    return ReferenceSolution(Q, tuple(history), gap, settled)


def published(
    P: FloatArray,
    features: FloatArray,
    labels: IntArray,
    budget: float,
    epsilon: float = 0.1,
    kappa: float = 1.0,
    outer: int = 10,
    inner: int = 100,
) -> FloatArray:
    """CSOT as the authors' code computes it, from its description; returns Q, (N, C).

    Differences from :func:`csot`: coherence is weighted by the cost -log P instead of by P; the
    numbers of iterations are fixed, and every inner problem starts from v = 1; the row constraint
    keeps its minimum at a budget of one; the step satisfies Armijo's rule (constant 1e-4, first
    trial 0.99, halved) instead of being exact; an outer step that changes the objective by less
    than 1e-6, absolutely or relatively, is the last. Uniform rows and classes.
    """
    N, C = P.shape
    a, b = np.full(N, 1.0 / N), np.full(C, budget / C)
    cost, S, L = cost_matrix(P), cosine_similarity(features), one_hot(labels, C)

    def value(Q: FloatArray) -> float:
        return objective(Q, cost, epsilon, kappa, kappa, S, cost, L)

    Q = np.outer(a, b)
    current = value(Q)
    for _ in range(outer):
        coherence = coherence_gradient(S, cost, Q) + coherence_gradient(S, L, Q)
        direction = scaling(cost + kappa * coherence, a, b, epsilon, inner) - Q
        entropy = epsilon * (1.0 + np.log(np.maximum(Q, np.finfo(np.float64).tiny)))
        slope = float(np.sum((cost + kappa * coherence + entropy) * direction))
        step, moved = 0.99, current
        while step > 1e-9:
            moved = value(Q + step * direction)
            if moved <= current + 1e-4 * step * slope:
                break
            step /= 2
        else:
            break
        Q = Q + step * direction
        change, current = abs(current - moved), moved
        if change < 1e-6 or change < 1e-6 * abs(current):
            break
    return Q


def between(Q: FloatArray, target: FloatArray, step: float) -> FloatArray:
    """The plan (1 - step) Q + step target, (N, C)."""
    return (1.0 - step) * Q + step * target


def best_step(value_at: Callable[[float], float], slope_at: Callable[[float], float]) -> float:
    """The step in [0, 1] at which ``value_at(step)`` is least (exact line search).

    ``slope_at`` is the derivative. The value need not be convex in the step: every local minimum
    that a grid of slopes reveals is located by bisection, and the one of least value wins. Slopes
    rather than values locate them, since close to a minimum values differ by rounding only.
    """
    grid = [float(step) for step in np.linspace(0.0, 1.0, 41)]
    slopes = [slope_at(step) for step in grid]
    falls_then_rises = [k for k in range(len(grid) - 1) if slopes[k] < 0.0 < slopes[k + 1]]
    local_minima = [
        float(bisect(slope_at, grid[k], grid[k + 1], xtol=1e-16)) for k in falls_then_rises
    ]
    if slopes[0] >= 0.0:
        local_minima.append(0.0)
    if slopes[-1] <= 0.0:
        local_minima.append(1.0)
    return min(local_minima, key=value_at)


# Allocation --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReferenceAllocation:
    """What a plan says of every sample; all fields have shape (N,).

    pseudo_labels   the class of the largest entry of the row
    confidence      max_k Q_ik / a_i
    selected        whether the sample is among the most confident floor(m N)
    clean           selected, and the pseudo label is the given label
    corrupted       see the ``variant`` of :func:`allocate`
    weights         see the ``variant`` of :func:`allocate`
    """

    pseudo_labels: IntArray
    confidence: FloatArray
    selected: BoolArray
    clean: BoolArray
    corrupted: BoolArray
    weights: FloatArray


def allocate(
    Q: FloatArray,
    labels: IntArray,
    budget: float,
    class_prior: FloatArray,
    row_weights: FloatArray,
    variant: Literal["paper", "published"],
) -> ReferenceAllocation:
    """Read pseudo labels, selection, clean and corrupted sets and weights off a plan Q, (N, C).

    The budget m must be positive. Of equal entries the lowest class, and of equally confident
    samples the lowest index, comes first. With y^ the pseudo and y the given label:

        "paper"       corrupted: y^ != y, whether selected or not;  w_i = Q_iy^ / (m prior_y^)
        "published"   corrupted: all that is not clean;             w_i = min(Q_iy^ / a_i, 1)

    The paper's weight Q_iy^ / (m / C) is the first for a uniform prior. A sample without a label
    agrees with no pseudo label.
    """
    N = len(Q)
    pseudo_labels = np.array([int(np.argmax(row)) for row in Q], dtype=np.int64)
    largest = np.array([Q[i, pseudo_labels[i]] for i in range(N)])
    confidence = _divide_or_zero(largest, row_weights)

    most_confident_first = sorted(range(N), key=lambda i: (-confidence[i], i))
    selected = np.zeros(N, dtype=np.bool_)
    selected[most_confident_first[: math.floor(budget * N)]] = True

    agrees = pseudo_labels == labels
    clean = selected & agrees
    if variant == "paper":
        corrupted = ~agrees
        weights = _divide_or_zero(largest, budget * class_prior[pseudo_labels])
    elif variant == "published":
        corrupted = ~clean
        weights = np.minimum(confidence, 1.0)
    else:
        raise ValueError(f"variant must be 'paper' or 'published', not {variant!r}.")
    return ReferenceAllocation(pseudo_labels, confidence, selected, clean, corrupted, weights)


# Arithmetic --------------------------------------------------------------------------------------


def _log(x: FloatArray) -> FloatArray:
    """log x with log 0 = -inf, quietly."""
    with np.errstate(divide="ignore"):
        return np.log(x)


def _log_divide(log_x: FloatArray, log_y: FloatArray) -> FloatArray:
    """log(x / y) with 0 / y = 0 for every y, zero included."""
    return np.subtract(log_x, log_y, out=log_x.copy(), where=log_x > -np.inf)


def _log_sum_over_columns(log_M: FloatArray) -> FloatArray:
    """log(M 1), (N,)."""
    return _log_sum(log_M, axis=1)


def _log_sum_over_rows(log_M: FloatArray) -> FloatArray:
    """log(M^T 1), (C,)."""
    return _log_sum(log_M, axis=0)


def _log_sum(log_M: FloatArray, axis: int) -> FloatArray:
    """log of the sum of M along an axis, relative to its largest entry; sums of nothing but
    zeros have the logarithm -inf.
    """
    # Reduced without the methods of arrays, which take longer than reducing so few numbers does.
    largest: FloatArray = np.maximum.reduce(log_M, axis=axis, keepdims=True)
    largest[largest == -np.inf] = 0.0
    total: FloatArray = np.add.reduce(np.exp(log_M - largest), axis=axis, keepdims=True)
    return (_log(total) + largest).squeeze(axis)


def _divide_or_zero(x: FloatArray, y: FloatArray) -> FloatArray:
    """x / y, and zero where y is zero."""
    return np.divide(x, y, out=np.zeros_like(x), where=y > 0)
