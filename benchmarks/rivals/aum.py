"""AUM: Pleiss, Zhang, Elenberg and Weinberger 2020, "Identifying mislabeled data using the area
under the margin ranking" (NeurIPS).

The margin of row i at epoch t is M_t(i) = z_y(i) - max_{k != y} z_k(i), with z the logits, and

    AUM(i) = (1/T) sum_t M_t(i)

while a network trains. N / (C + 1) random rows, the threshold samples, are relabelled to a class of
their own, C + 1, that no row belongs to: they look like mislabelled data. Rows whose AUM is not
above the 99th percentile of theirs are flagged. A second run with other threshold samples judges
the rows that served as such in the first.

The network here is one hidden layer on the features: SGD with Nesterov momentum .9, learning rate
.1 and weight decay 1e-4, as in the paper, stopped before the learning rate would drop.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import Tensor, nn

from rivals.probe import CrossValidated
from rivals.verdict import Labels, Mask, Scores, Task, Verdict

HIDDEN = 128
BATCHES = (16, 256)
"""Rows per batch: a fiftieth of all, within these."""
EPOCHS = 10
"""More let the network learn wrong labels by heart, and the ranking falls."""
PERCENTILE = 99


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """Logit of the given label less the largest other logit, (N,)."""
    own = logits.gather(1, labels[:, None])
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return own[:, 0] - others.amax(1)


def training_margins(rows: Tensor, labels: Labels, n_classes: int, seed: int) -> Scores:
    """Margin of each row, averaged over the epochs, at the time the row was trained on."""
    chance = torch.Generator().manual_seed(seed)
    batch_size = int(np.clip(len(rows) // 50, *BATCHES))
    dim = rows.shape[1]
    first = torch.randn(dim, HIDDEN, generator=chance) * (2 / dim) ** 0.5
    second = torch.randn(HIDDEN, n_classes, generator=chance) * (1 / HIDDEN) ** 0.5
    parameters = [first, torch.zeros(HIDDEN), second, torch.zeros(n_classes)]
    for parameter in parameters:
        parameter.requires_grad_()
    optimiser = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
    target = torch.from_numpy(labels)
    total = torch.zeros(len(rows), dtype=torch.float64)
    with torch.enable_grad():
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(rows), generator=chance).split(batch_size):
                w1, b1, w2, b2 = parameters
                logits = (rows[batch] @ w1 + b1).relu() @ w2 + b2
                total[batch] += margins(logits.detach(), target[batch]).double()
                optimiser.zero_grad()
                nn.functional.cross_entropy(logits, target[batch]).backward()
                optimiser.step()
    return (total / EPOCHS).numpy()


def area_under_margin(
    rows: Tensor, given: Labels, n_classes: int, seed: int
) -> tuple[Scores, Mask]:
    """AUM (N,) and flags, from two runs with disjoint threshold samples."""
    n = len(given)
    order = np.random.default_rng(seed).permutation(n)
    size = min(max(n // (n_classes + 1), 1), n // 2)
    total, runs, flagged = np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.bool_)
    for run in range(2):
        chosen = order[run * size : (run + 1) * size]
        kept = np.ones(n, dtype=np.bool_)
        kept[chosen] = False
        found = training_margins(rows, np.where(kept, given, n_classes), n_classes + 1, seed + run)
        # The first run decides; the second only on what served as threshold samples in the first.
        decides = kept & (runs == 0)
        flagged[decides] = found[decides] <= np.percentile(found[chosen], PERCENTILE)
        total += np.where(kept, found, 0.0)
        runs += kept
    return total / runs, flagged


def judge_by_aum(task: Task, fitted: CrossValidated) -> Verdict:
    """Flagged rows get the label of the probe retrained without them."""
    start = time.perf_counter()
    score, flagged = area_under_margin(fitted.rows, task.given, task.n_classes, task.seed)
    coefficients = fitted.refit(~flagged)
    return Verdict(
        score=score,
        flagged=flagged,
        predicted=(fitted.rows @ coefficients).argmax(1).numpy(),
        noise_rate=float(flagged.mean()),
        test=fitted.predict(coefficients, task.test),
        seconds=time.perf_counter() - start,
    )
