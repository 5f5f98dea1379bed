"""The snapshot that a figure shows where none is given, and the plan of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

from csot.ot.plan import Plan
from csot.ot.solve import solve
from csot.runs.snapshots import Snapshot

ROWS = 200
NOISE = 0.5
HIDDEN = 32
STEPS = 60
SEED = 0


@cache
def warm_digits(rows: int = ROWS, seed: int = SEED) -> Snapshot:
    """`rows` random digits: features and predictions of a small network, given and true labels.

    The network (64 - 32 - 10) is trained for a second on all digits, with symmetric noise of 50 %:
    as in the paper's figures it separates some classes and still confuses others.
    """
    from sklearn.datasets import load_digits

    pixels, truth = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(len(truth)) < NOISE, rng.integers(0, 10, len(truth)), truth)
    inputs = torch.from_numpy(pixels / 8 - 1).float()
    targets = torch.from_numpy(labels)
    generator = torch.Generator().manual_seed(seed)
    first, last = nn.Linear(64, HIDDEN), nn.Linear(HIDDEN, 10)
    for layer in (first, last):
        bound = layer.in_features**-0.5
        nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
        nn.init.zeros_(layer.bias)
    parameters = [*first.parameters(), *last.parameters()]
    optimiser = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    for _ in range(STEPS):
        batch = torch.randint(len(inputs), (128,), generator=generator)
        logits = last(torch.relu(first(inputs[batch])))
        loss = nn.functional.cross_entropy(logits, targets[batch])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    chosen = rng.permutation(len(truth))[:rows]
    with torch.no_grad():
        features = torch.relu(first(inputs[torch.from_numpy(chosen)]))
        probs = last(features).softmax(-1)
    return Snapshot(probs.numpy(), features.numpy(), labels[chosen], truth[chosen])


def snapshot_or_digits(snapshot: Snapshot | None) -> Snapshot:
    """The snapshot given; digits where there is none."""
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
