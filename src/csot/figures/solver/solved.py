"""The plan of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from csot.figures.solver.warm_digits import warm_digits
from csot.ot.plan import Plan
from csot.ot.solve import solve
from csot.runs.snapshots import Snapshot


def snapshot_or_digits(snapshot: Snapshot | None) -> Snapshot:
    """What a user gave; digits where that is nothing."""
    if snapshot is None:
        return warm_digits()
    if not isinstance(snapshot, Snapshot):
        raise ValueError(
            f"`snapshot` must be a csot.figures.Snapshot(pred_probs, features), got "
            f"{type(snapshot).__name__}"
        )
    return snapshot


def titled_plans(plans: Mapping[str, Plan] | Plan) -> dict[str, Plan]:
    """Plans by title; a single one has none."""
    if isinstance(plans, Plan):
        return {"": plans}
    if not isinstance(plans, Mapping):
        raise ValueError(
            f"`plans` must be a Plan, or plans by title such as {{'m = 0.5': plan}}, got "
            f"{type(plans).__name__}"
        )
    return dict(plans)


def plan_of(
    snapshot: Snapshot,
    *,
    budget: float = 1.0,
    epsilon: float = 0.1,
    coherence: float = 1.0,
    similarity: Any = "cosine",
) -> Plan:
    """`csot.solve` in float64 and to convergence: a figure should show the optimum."""
    return solve(
        snapshot.pred_probs.astype(np.float64),
        features=snapshot.features.astype(np.float64),
        labels=snapshot.labels,
        budget=budget,
        epsilon=epsilon,
        coherence=coherence,
        similarity=similarity,
        max_outer=200,
        max_inner=5000,
    )
