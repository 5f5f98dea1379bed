"""Validation of the arguments: a `ValueError` names argument, value and remedy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from numbers import Real

import torch
from torch import Tensor

from csot.ot.array_adapter import ArrayAdapter, as_tensor, computing_device, floating
from csot.ot.coherence.cosine import CosineCoherence
from csot.ot.coherence.similarity import (
    FunctionSimilarity,
    MatrixSimilarity,
    Similarity,
    asymmetry,
    neighbour_graph,
    symmetric_part,
)
from csot.ot.coherence.terms import Coherence, OperatorCoherence, Terms
from csot.ot.execution import Execution, OneShard, Reduce, Workspace
from csot.ot.numerics import LOG_ZERO


def read_probabilities(
    pred_probs: object | None, log_probs: object | None, workspace: Workspace
) -> tuple[ArrayAdapter, Tensor, Tensor]:
    """The adapter for further arguments, and log P and P as new tensors (B, C, N)."""
    if (pred_probs is None) == (log_probs is None):
        raise ValueError("pass either pred_probs or log_probs, and not both")
    name, value = ("log_probs", log_probs) if pred_probs is None else ("pred_probs", pred_probs)
    given = as_tensor(name, value)
    if given.ndim not in (2, 3) or 0 in given.shape:
        raise ValueError(
            f"{name} has shape {tuple(given.shape)}; (N, C), or (B, N, C) for a batch of problems, "
            "with at least one row and two classes is needed"
        )
    if given.shape[-1] == 1:
        raise ValueError(f"{name} has one column: with one class there is nothing to allocate")
    # The rounding error of half precisions.
    slack = 1e-3 if given.dtype in (torch.float32, torch.float64) else 2e-2
    batched = given.ndim == 3
    rows = floating(given if batched else given[None])
    adapter = ArrayAdapter(not isinstance(value, Tensor), batched, rows.device, rows.dtype)
    rows = rows.to(computing_device(rows.device))
    if pred_probs is None:
        _check_log_probs(rows, slack)
        log_p = _class_major(rows, workspace).clamp_(min=LOG_ZERO)
        return adapter, log_p, torch.exp(log_p, out=workspace.empty_like(log_p))
    _check_probs(rows, slack)
    probs = _class_major(rows, workspace)
    log_p = torch.log(probs, out=workspace.empty_like(probs)).clamp_(min=LOG_ZERO)
    return adapter, log_p, probs


def _class_major(rows: Tensor, workspace: Workspace) -> Tensor:
    """(B, N, C) as a new (B, C, N)."""
    batch, n, n_classes = rows.shape
    return workspace.empty((batch, n_classes, n), rows.dtype, rows.device).copy_(rows.mT)


def _check_probs(pred_probs: Tensor, slack: float) -> None:
    low, sums = float(pred_probs.amin()), pred_probs.sum(-1)
    if not bool(sums.isfinite().all()):
        raise ValueError(
            f"pred_probs has NaN or infinite entries (first in {_where(~pred_probs.isfinite())}); "
            "check the model's output, or drop those rows"
        )
    if low < 0:
        raise ValueError(
            f"pred_probs has a negative entry ({low:.4g}); probabilities are needed: apply softmax "
            "to logits, or pass log_probs="
        )
    _require_sums("pred_probs", "sums to", sums, slack, "apply softmax to logits")


def _check_log_probs(log_probs: Tensor, slack: float) -> None:
    bad = log_probs.isnan() | (log_probs == torch.inf)
    if bool(bad.any()):
        raise ValueError(
            f"log_probs has NaN or +inf entries (first in {_where(bad)}); pass "
            "torch.log_softmax(logits, -1)"
        )
    sums = log_probs.exp().sum(-1)
    remedy = "apply log_softmax to logits"
    _require_sums("log_probs", "has exponentials that sum to", sums, slack, remedy)


def read_labels(
    labels: object, adapter: ArrayAdapter, shape: tuple[int, int], n_classes: int
) -> Tensor:
    """Given labels (B, N) as int64, -1 where none is given."""
    given = adapter.batch_of("labels", labels, axes=1)
    if tuple(given.shape) != shape:
        raise ValueError(
            f"labels has shape {tuple(given.shape[1 - adapter.batched :])} but pred_probs has "
            f"{shape[1]} rows: one label per row is needed, -1 where none is given"
        )
    return checked_labels(given, n_classes)


def checked_labels(given: Tensor, n_classes: int) -> Tensor:
    """Labels as int64, each a class or -1."""
    whole = given.to(torch.int64)
    uneven = whole != given
    if bool(uneven.any()):
        raise ValueError(
            f"labels contains {float(given[uneven][0]):g}, which is not a class index: labels must "
            "be whole numbers, with -1 for 'none given'"
        )
    low, high = int(whole.min()), int(whole.max())
    if low < -1 or high >= n_classes:
        raise ValueError(
            f"labels contains {low if low < -1 else high}, but there are {n_classes} classes: "
            f"labels must lie in 0..{n_classes - 1}, or be -1 for 'none given'"
        )
    return whole


def row_capacities(
    row_weights: object | None, like: Tensor, adapter: ArrayAdapter, reduce: Reduce
) -> Tensor:
    """a (B, N), positive, with sum one over all shards."""
    batch, _, n = like.shape
    if row_weights is None:
        total = reduce.sum(like.new_full((1,), float(n), dtype=torch.float64))
        return like.new_full((batch, n), 1.0 / float(total), dtype=torch.float64)
    weights = adapter.tensor("row_weights", row_weights)
    if tuple(weights.shape) not in ((n,), (batch, n)):
        raise ValueError(
            f"row_weights has shape {tuple(weights.shape)} but there are {n} rows: one weight "
            "per row is needed"
        )
    weights = weights.double()
    bad = ~((weights > 0) & weights.isfinite())
    if bool(bad.any()):
        raise ValueError(
            f"row_weights must be positive and finite, got {float(weights[bad][0]):.4g} in "
            f"{_where(bad.expand(batch, n)[..., None])}; leave out the rows that should not count"
        )
    weights = weights.expand(batch, n)
    return weights / reduce.sum(weights.sum(-1, keepdim=True))


def read_prior(
    class_prior: object,
    labels: Tensor | None,
    capacities: Tensor,
    n_classes: int,
    adapter: ArrayAdapter,
    reduce: Reduce,
) -> Tensor:
    """Shares of the classes (B, C) as float64 that sum to one. A share of zero is allowed."""
    batch = len(capacities)
    if class_prior is None or (isinstance(class_prior, str) and class_prior == "uniform"):
        return capacities.new_full((batch, n_classes), 1 / n_classes, dtype=torch.float64)
    if isinstance(class_prior, str):
        read_choice("class_prior", class_prior, ("uniform", "labels"))
        if labels is None:
            raise ValueError('class_prior="labels" needs labels=, but they were not given')
        return _frequencies(labels, capacities, n_classes, reduce)
    prior = adapter.tensor("class_prior", class_prior).double()
    if tuple(prior.shape) not in ((n_classes,), (batch, n_classes)):
        raise ValueError(
            f"class_prior has shape {tuple(prior.shape)} but there are {n_classes} classes: one "
            "share per class is needed"
        )
    if not bool(prior.isfinite().all()) or bool((prior < 0).any()):
        raise ValueError(
            f"class_prior must be finite and not negative, got {_short(prior)}: with such a share "
            "no plan is feasible"
        )
    total = prior.sum(-1, keepdim=True)
    if bool(((total - 1).abs() > 1e-3).any()):
        raise ValueError(
            f"class_prior sums to {float(total.flatten()[0]):.6g} instead of 1; divide it by its "
            "sum"
        )
    return (prior / total).expand(batch, n_classes)


def _frequencies(labels: Tensor, weights: Tensor, n_classes: int, reduce: Reduce) -> Tensor:
    """Frequencies (B, C) of the given labels, rows counted by their weight."""
    given = labels >= 0
    counts = weights.new_zeros(labels.shape[0], n_classes, dtype=torch.float64)
    counts.scatter_add_(1, labels.clamp(min=0), weights.double() * given)
    counts = reduce.sum(counts)
    total = counts.sum(-1, keepdim=True)
    if not bool((total > 0).all()):
        raise ValueError('class_prior="labels" needs labels, but none is given (all are -1)')
    return counts / total


def read_coherence(
    kappa: float | tuple[float, float],
    unit: float,
    similarity: object,
    features: object | None,
    neighbours: int,
    weights: Tensor,
    labels: Tensor | None,
    adapter: ArrayAdapter,
    execution: Execution,
) -> Coherence | None:
    """The coherence terms, or None if their weights are zero or there is no similarity.

    `unit` is the unit in which kappa is given.
    """
    pair = kappa if isinstance(kappa, (tuple, list)) else (kappa, kappa)
    if len(pair) != 2:
        raise ValueError(f"coherence must be a number or a pair (prediction, label), got {kappa!r}")
    prediction, label = (checked_positive("coherence", k, zero_allowed=True) for k in pair)
    terms = Terms(weights, unit * prediction, labels, unit * label)
    reduce = execution.reduce
    shape = (weights.shape[0], weights.shape[2])
    coherence: Coherence
    if not isinstance(similarity, str):
        given = _given_similarity(similarity, adapter, shape, reduce)
        coherence = OperatorCoherence(given, terms, reduce)
    else:
        read_choice("similarity", similarity, ("cosine", "knn"))
        if features is None:
            return None
        vectors, norms = _read_features(features, adapter, shape)
        if similarity == "cosine":
            coherence = CosineCoherence(vectors, norms, terms, execution)
        elif isinstance(reduce, OneShard):
            coherence = OperatorCoherence(neighbour_graph(vectors, neighbours), terms, reduce)
        else:
            raise ValueError(
                'similarity="knn" needs all rows in one process; with group= use "cosine"'
            )
    return coherence if terms.has_prediction or terms.given is not None else None


def _read_features(
    features: object, adapter: ArrayAdapter, shape: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """Finite vectors (B, N, D) and their norms (B, N)."""
    vectors = floating(adapter.batch_of("features", features, axes=2), adapter.dtype)
    if tuple(vectors.shape[:2]) != shape or vectors.shape[2] == 0:
        raise ValueError(
            f"features has shape {tuple(vectors.shape[1 - adapter.batched :])} but pred_probs has "
            f"{shape[1]} rows: one feature vector per row is needed"
        )
    norms = torch.linalg.vector_norm(vectors, dim=-1)
    if bool(norms.isfinite().all()):
        return vectors, norms
    bad = (~vectors.isfinite()).nonzero()
    if len(bad):
        raise ValueError(
            f"features has NaN or infinite entries (first in row {int(bad[0, 1])}); impute or drop "
            "them"
        )
    # Only the squares overflow: rescale, which does not change the directions.
    vectors = vectors / vectors.abs().amax(-1, keepdim=True)
    return vectors, torch.linalg.vector_norm(vectors, dim=-1)


def read_choice(name: str, value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {listed}, got {value!r}")
    return value


def checked_budget(budget: float) -> float:
    if not (isinstance(budget, Real) and 0 < budget <= 1):
        raise ValueError(
            f"budget must be a number in (0, 1], the share of samples to allocate, got {budget!r}"
        )
    return float(budget)


def checked_positive(name: str, value: float, *, zero_allowed: bool = False) -> float:
    if not (
        isinstance(value, Real)
        and math.isfinite(value)
        and (value > 0 or (value == 0 and zero_allowed))
    ):
        wanted = "zero or a positive number" if zero_allowed else "a positive number"
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    return float(value)


def _given_similarity(
    similarity: object, adapter: ArrayAdapter, shape: tuple[int, int], reduce: Reduce
) -> Similarity:
    """The user's own S: an operator, a function, or a matrix."""
    if hasattr(similarity, "apply") and hasattr(similarity, "apply_within"):
        return similarity
    if callable(similarity):
        return FunctionSimilarity(similarity, batched=adapter.batched)
    if not isinstance(reduce, OneShard):
        raise ValueError(
            'similarity: a matrix needs all rows in one process; with group= use "cosine", or a '
            "function that exchanges what it needs"
        )
    matrix = adapter.tensor("similarity", similarity).to(adapter.dtype)
    dense = matrix.layout == torch.strided
    batch, wanted = shape[0], (shape[1], shape[1])
    if tuple(matrix.shape) not in ((wanted, (batch, *wanted)) if dense else (wanted,)):
        raise ValueError(
            f"similarity has shape {tuple(matrix.shape)} but pred_probs has {shape[1]} rows: a "
            f"matrix of shape {wanted} is needed"
        )
    # The sum instead of all entries: sparse layouts have no `isfinite`.
    if not math.isfinite(float(matrix.sum())):
        raise ValueError("similarity has NaN or infinite entries; set undefined ones to zero")
    off = asymmetry(matrix)
    # Up to rounding.
    if off > (1e-4 if adapter.dtype == torch.float32 else 1e-8):
        warnings.warn(
            f"csot.solve: similarity is not symmetric (S and its transpose differ by up to "
            f"{off:.2g} of the largest entry); (S + S')/2 is used, which gives the same "
            "coherence. Pass that to silence this warning",
            stacklevel=4,
        )
        matrix = symmetric_part(matrix)
    return MatrixSimilarity(matrix if not dense or matrix.ndim == 3 else matrix[None])


def _require_sums(name: str, verb: str, sums: Tensor, slack: float, remedy: str) -> None:
    off = (sums - 1).abs()
    worst = off.max()
    if float(worst) > slack:
        at = off == worst
        raise ValueError(
            f"{name}: {_where(at[..., None])} {verb} {float(sums[at][0]):.6g} instead of 1; "
            f"{remedy}, or normalise the rows"
        )


def _where(bad: Tensor) -> str:
    """The first row of a (B, N, ...) mask with a true entry, in words."""
    problem, row = bad.nonzero()[0, :2].tolist()
    return f"row {row}" if len(bad) == 1 else f"row {row} of problem {problem}"


def _short(values: Tensor) -> str:
    listed = ", ".join(f"{float(x):.4g}" for x in values.flatten()[:6])
    return f"[{listed}{', ...' if values.numel() > 6 else ''}]"
