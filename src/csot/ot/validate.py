"""What the user passed, checked: a ``ValueError`` at the door names argument, value and remedy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

import torch
from torch import Tensor

from csot.ot.arrays import Door, as_tensor, floating
from csot.ot.coherence.cosine import CosineCoherence
from csot.ot.coherence.knn import neighbour_graph
from csot.ot.coherence.operator import FunctionSimilarity, MatrixSimilarity, Similarity
from csot.ot.coherence.terms import Coherence, OperatorCoherence, Terms
from csot.ot.numerics import LOG_ZERO, widest_float
from csot.ot.reduce import OneShard, Reduce
from csot.ot.workspace import Memory


def read_probabilities(
    pred_probs: object | None, log_probs: object | None, memory: Memory
) -> tuple[Door, Tensor, Tensor]:
    """The door, log P and P, both as new tensors (B, C, N)."""
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
    # Half precisions cannot sum to one any better than this.
    slack = 1e-3 if given.dtype in (torch.float32, torch.float64) else 2e-2
    batched = given.ndim == 3
    rows = floating(given if batched else given[None])
    door = Door(not isinstance(value, Tensor), batched, rows.device, rows.dtype)
    if pred_probs is None:
        _check_log_probs(rows, slack)
        log_p = _class_major(rows, memory).clamp_(min=LOG_ZERO)
        return door, log_p, torch.exp(log_p, out=memory.empty_like(log_p))
    _check_probs(rows, slack)
    probs = _class_major(rows, memory)
    log_p = torch.log(probs, out=memory.empty_like(probs)).clamp_(min=LOG_ZERO)
    return door, log_p, probs


def _class_major(rows: Tensor, memory: Memory) -> Tensor:
    """(B, N, C) as a new (B, C, N)."""
    batch, n, n_classes = rows.shape
    return memory.empty((batch, n_classes, n), rows.dtype, rows.device).copy_(rows.mT)


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


def read_labels(labels: object, door: Door, shape: tuple[int, int], n_classes: int) -> Tensor:
    """Given labels (B, N) as int64, -1 where none is given."""
    given = door.batch_of("labels", labels, axes=1)
    if tuple(given.shape) != shape:
        raise ValueError(
            f"labels has shape {tuple(given.shape[1 - door.batched :])} but pred_probs has "
            f"{shape[1]} rows: one label a row is needed, -1 where none is given"
        )
    return checked_labels(given, n_classes)


def checked_labels(given: Tensor, n_classes: int) -> Tensor:
    """Labels as int64, each a class or -1."""
    whole = given.to(torch.int64)
    uneven = whole != given
    if bool(uneven.any()):
        raise ValueError(
            f"labels contains {float(given[uneven][0]):g}, which is no class index: labels must be "
            "whole numbers, with -1 for 'none given'"
        )
    low, high = int(whole.min()), int(whole.max())
    if low < -1 or high >= n_classes:
        raise ValueError(
            f"labels contains {low if low < -1 else high}, but there are {n_classes} classes: "
            f"labels must lie in 0..{n_classes - 1}, or be -1 for 'none given'"
        )
    return whole


def row_capacities(row_weights: Tensor | None, like: Tensor, reduce: Reduce) -> Tensor:
    """a (B, N), positive, with sum one over all shards."""
    batch, _, n = like.shape
    if row_weights is None:
        total = reduce.sum(like.new_full((1,), float(n), dtype=torch.float64))
        return like.new_full((batch, n), 1.0 / float(total), dtype=widest_float(like.device))
    if tuple(row_weights.shape) not in ((n,), (batch, n)):
        raise ValueError(
            f"row_weights has shape {tuple(row_weights.shape)} but there are {n} rows: one weight "
            "a row"
        )
    weights = row_weights.double()
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
    door: Door,
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
    prior = as_tensor("class_prior", class_prior, door.device).double()
    if tuple(prior.shape) not in ((n_classes,), (batch, n_classes)):
        raise ValueError(
            f"class_prior has shape {tuple(prior.shape)} but there are {n_classes} classes: one "
            "share a class"
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
    similarity: object,
    features: object | None,
    neighbours: int,
    weights: Tensor,
    labels: Tensor | None,
    door: Door,
    reduce: Reduce,
    memory: Memory,
) -> Coherence | None:
    """The coherence terms, or None where they vanish or there is nothing to compare samples by."""
    pair = kappa if isinstance(kappa, (tuple, list)) else (kappa, kappa)
    if len(pair) != 2:
        raise ValueError(f"coherence must be a number or a pair (prediction, label), got {kappa!r}")
    prediction, label = (checked_positive("coherence", k, zero_allowed=True) for k in pair)
    terms = Terms(weights, prediction, labels, label)
    shape = (weights.shape[0], weights.shape[2])
    made: Coherence
    if not isinstance(similarity, str):
        given = _given_similarity(similarity, door, shape, reduce)
        made = OperatorCoherence(given, terms, reduce)
    else:
        read_choice("similarity", similarity, ("cosine", "knn"))
        if features is None:
            return None
        vectors, norms = _read_features(features, door, shape)
        if similarity == "cosine":
            made = CosineCoherence(vectors, norms, terms, reduce, memory)
        elif isinstance(reduce, OneShard):
            made = OperatorCoherence(neighbour_graph(vectors, neighbours), terms, reduce)
        else:
            raise ValueError(
                'similarity="knn" needs all rows in one process; with group= use "cosine"'
            )
    return made if terms.has_prediction or terms.given is not None else None


def _read_features(features: object, door: Door, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Finite vectors (B, N, D) and their norms (B, N)."""
    vectors = floating(door.batch_of("features", features, axes=2), door.dtype)
    if tuple(vectors.shape[:2]) != shape or vectors.shape[2] == 0:
        raise ValueError(
            f"features has shape {tuple(vectors.shape[1 - door.batched :])} but pred_probs has "
            f"{shape[1]} rows: one feature vector a row is needed"
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
    # Their squares overflow; directions do not depend on the scale.
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
    similarity: object, door: Door, shape: tuple[int, int], reduce: Reduce
) -> Similarity:
    """The user's own S: an operator, a function, or a matrix."""
    if hasattr(similarity, "apply") and hasattr(similarity, "apply_within"):
        return similarity
    if callable(similarity):
        return FunctionSimilarity(similarity, batched=door.batched)
    if not isinstance(reduce, OneShard):
        raise ValueError(
            'similarity: a matrix needs all rows in one process; with group= use "cosine", or a '
            "function that exchanges what it needs"
        )
    matrix = as_tensor("similarity", similarity, door.device).to(door.dtype)
    dense = matrix.layout == torch.strided
    batch, wanted = shape[0], (shape[1], shape[1])
    if tuple(matrix.shape) not in ((wanted, (batch, *wanted)) if dense else (wanted,)):
        raise ValueError(
            f"similarity has shape {tuple(matrix.shape)} but pred_probs has {shape[1]} rows: a "
            f"matrix of shape {wanted} is needed"
        )
    # Their sum, and not every entry: sparse layouts have no ``isfinite``.
    if not math.isfinite(float(matrix.sum())):
        raise ValueError("similarity has NaN or infinite entries; set those of no meaning to zero")
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
    """The first row of a (B, N, ...) mask that has a mark, in words."""
    problem, row = bad.nonzero()[0, :2].tolist()
    return f"row {row}" if len(bad) == 1 else f"row {row} of problem {problem}"


def _short(values: Tensor) -> str:
    listed = ", ".join(f"{float(x):.4g}" for x in values.flatten()[:6])
    return f"[{listed}{', ...' if values.numel() > 6 else ''}]"
