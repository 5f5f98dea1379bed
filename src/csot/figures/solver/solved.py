"""The plan of a snapshot."""

from __future__ import annotations

from typing import Any

import numpy as np

from csot.ot.plan import Plan
from csot.ot.solve import solve
from csot.runs.snapshots import Snapshot


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
