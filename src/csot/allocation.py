"""From a plan and the given labels to the split of the data (Eqs. 7 and 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from csot.ot.array_adapter import Array, as_tensor
from csot.ot.plan import Plan
from csot.ot.validate import checked_labels

Variant = Literal["paper", "published"]


@dataclass(frozen=True, eq=False)
class Allocation:
    """Which given labels to trust, which to replace and by what. Arrays (N,), or (B, N)."""

    pseudo_labels: Array
    """argmax_k Q_ik, Q the solution of Eq. 6."""
    weights: Array
    """w_i: `paper` Q_iy / (m * prior_y), `published` Q_iy / a_i clipped to [0, 1]."""
    selected: Array
    """The floor(m N) most confident samples (Eq. 7)."""
    clean: Array
    """Selected, and the plan agrees with the given label (Eq. 8)."""
    corrupted: Array
    """`paper`: the plan disagrees, selected or not. `published`: all that is not clean."""
    variant: Variant

    @property
    def unselected(self) -> Array:
        """Samples that are not selected."""
        return ~self.selected

    @property
    def relabelled(self) -> Array:
        """Selected, and the plan disagrees: the reliable corrections."""
        return self.selected & ~self.clean


def allocate(plan: Plan, labels: Array, *, variant: Variant = "paper") -> Allocation:
    """Split the samples of a plan into clean and corrupted (Eqs. 7 and 8).

    `labels` (N,), or (B, N) for a batch, are the given labels; -1 where none is given. A sample
    without a label is never clean and always corrupted. The variants differ where the authors'
    code differs from their equations: in `paper` a sample whose label the plan confirms, but
    which is not selected, belongs to neither set.
    """
    if variant not in ("paper", "published"):
        raise ValueError(f"variant must be 'paper' or 'published', got {variant!r}")
    pseudo = as_tensor("plan.labels", plan.labels)
    given = as_tensor("labels", labels, pseudo.device)
    if given.shape != pseudo.shape:
        raise ValueError(
            f"labels has shape {tuple(given.shape)} but the plan allocates {tuple(pseudo.shape)}: "
            "pass the labels of the same rows"
        )
    given = checked_labels(given, plan.class_prior.shape[-1])
    selected = as_tensor("plan.selected", plan.selected)
    agrees = pseudo == given
    clean = selected & agrees
    corrupted = ~agrees if variant == "paper" else ~clean

    def like_plan(x: Tensor) -> Array:
        return x.numpy() if isinstance(plan.coupling, np.ndarray) else x

    return Allocation(
        pseudo_labels=plan.labels,
        weights=like_plan(_weights(plan, pseudo, variant)),
        selected=plan.selected,
        clean=like_plan(clean),
        corrupted=like_plan(corrupted),
        variant=variant,
    )


def _weights(plan: Plan, pseudo: Tensor, variant: Variant) -> Tensor:
    if variant == "published":
        return as_tensor("plan.confidence", plan.confidence)
    mass = as_tensor("plan.coupling", plan.coupling).gather(-1, pseudo[..., None])[..., 0]
    totals = plan.budget * as_tensor("plan.class_prior", plan.class_prior).gather(-1, pseudo)
    return torch.where(totals > 0, mass / totals, 0.0)
