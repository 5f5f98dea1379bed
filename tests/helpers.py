"""Tolerances and problems that several tests share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from csot.ot.execution import Execution
from csot.ot.inner.kernel import Kernel
from csot.ot.problem import Marginals

Floats = npt.NDArray[np.floating]
Integers = npt.NDArray[np.integer]

PLAN_TOLERANCE = {"float64": 1e-6, "float32": 1e-4}
"""Largest error of a plan's entry, relative to the capacity of its row."""

FEASIBLE = 1e-5
"""Largest relative violation of a marginal."""

LOSS_TOLERANCE = 2e-5
"""Largest error of a loss, or of an entry of its gradient: losses are computed in float32."""


@dataclass(frozen=True)
class Instance:
    """A small CSOT problem in NumPy float64, with everything but uniform about it."""

    pred_probs: Floats
    features: Floats
    labels: Integers
    class_prior: Floats
    row_weights: Floats


def drawn(probs: Floats, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """A class for each row of probabilities (N, C): what `rng.choice(C, p=row)` draws, row by row.

    It too draws one number for each row, and takes the first class whose cumulative probability is
    larger; but it looks at each row's probabilities for longer than the rest of a test takes.
    """
    cumulative = np.cumsum(probs, axis=1)
    cumulative /= cumulative[:, -1:]
    return (cumulative <= rng.random(len(probs))[:, None]).sum(1)


def make_instance(n: int, c: int, seed: int, dim: int = 8, sharpness: float = 1.0) -> Instance:
    """Planted classes: features and predictions agree, labels only mostly, some are missing."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, c, n)
    logits = rng.normal(size=(n, c))
    logits[np.arange(n), truth] += 2.0
    probs = np.exp(sharpness * logits)
    labels = np.where(rng.random(n) < 0.3, rng.integers(-1, c, n), truth)
    weights = rng.uniform(0.5, 2.0, n)
    return Instance(
        pred_probs=probs / probs.sum(1, keepdims=True),
        features=rng.normal(size=(c, dim))[truth] + 0.5 * rng.normal(size=(n, dim)),
        labels=labels,
        class_prior=rng.dirichlet(np.full(c, 5.0)),
        row_weights=weights / weights.sum(),
    )


def plan_error(coupling: Floats, expected: Floats, row_weights: Floats) -> float:
    """max |Q - Q*| / a."""
    return float((np.abs(coupling - expected) / row_weights[:, None]).max())


def violation(coupling: Floats, row_weights: Floats, totals: Floats) -> float:
    """Largest relative violation of Q1 <= a, Q'1 = b, Q >= 0."""
    coupling = coupling.astype(np.float64)
    rows = (coupling.sum(1) / row_weights - 1).max()
    shared = totals > 0
    columns = np.abs(coupling.sum(0) - totals)[shared] / totals[shared]
    unshared = np.abs(coupling.sum(0))[~shared].max(initial=0.0)
    return float(max(rows, columns.max(), unshared, -coupling.min()))


def make_kernel(
    n: int, n_classes: int, budget: float, epsilon: float, seed: int, *, empty: bool = False
) -> Kernel:
    """Random costs, capacities and shares; with ``empty``, a class without a share."""
    rng = np.random.default_rng(seed)
    log_probs = np.log(rng.dirichlet(np.full(n_classes, 0.5), n).T.clip(1e-30))
    a, share = rng.dirichlet(np.full(n, 5.0)), rng.dirichlet(np.full(n_classes, 2.0))
    if empty:
        share[0] = 0.0
        share /= share.sum()
    marginals = Marginals(
        torch.from_numpy(a)[None], torch.from_numpy(budget * share)[None], balanced=budget == 1
    )
    kernel = Kernel(torch.from_numpy(log_probs)[None], marginals, Execution())
    kernel.linearise(None, epsilon)
    return kernel
