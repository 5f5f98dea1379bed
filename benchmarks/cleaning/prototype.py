"""The yardstick of the verified rows: the best power of the prototype.

Probabilities p are raised to a power g and normalised, and T is refitted by EM,

    T[k, y] proportional to sum_i [y_i = y] r_ik,   r_ik proportional to q_ik T[k, y_i],  q = p^g;

the corrected label is argmax_k r_ik. The power is chosen by the true labels: it is an upper bound
of what any rule that chooses g could reach, not a method.
"""

from __future__ import annotations

import numpy as np

from rivals.verdict import Labels, Scores

POWERS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 9.0, 14.0)
STEPS = 30


def corrected_by_power(probs: Scores, given: Labels, power: float) -> Labels:
    logs = power * np.log(np.maximum(probs, 1e-12))
    sharp = np.exp(logs - logs.max(1, keepdims=True))
    sharp /= sharp.sum(1, keepdims=True)
    n_classes = probs.shape[1]
    noise = np.full((n_classes, n_classes), 0.2 / n_classes) + 0.8 * np.eye(n_classes)
    by_label = [np.flatnonzero(given == label) for label in range(n_classes)]
    posterior = sharp
    for _ in range(STEPS):
        posterior = sharp * noise[:, given].T
        posterior /= np.maximum(posterior.sum(1, keepdims=True), 1e-300)
        counts = np.stack([posterior[rows].sum(0) for rows in by_label], 1)
        noise = counts / np.maximum(counts.sum(1, keepdims=True), 1e-300)
    return posterior.argmax(1)


def best_power(probs: Scores, given: Labels, truth: Labels) -> tuple[float, float]:
    """Share of right labels under the best of ``POWERS``, and that power."""
    shares = [
        (float((corrected_by_power(probs, given, power) == truth).mean()), power)
        for power in POWERS
    ]
    return max(shares)
