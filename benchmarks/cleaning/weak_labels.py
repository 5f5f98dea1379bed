"""A hold-out that needs no download: labels given by a weak classifier to scikit-learn's data.

The weak classifier is a logistic regression on few features of few rows (a quarter each, chosen at
random). Its sampled predictions on rows it has not seen play the part of a person: they are wrong
where the row is hard, and wrong in the way a look-alike class suggests. Its probabilities are
raised to the power at which the expected share of wrong labels is the one asked for; where even its
most likely class is wrong more often than that, true labels are mixed in.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from cleaning.cells import Cell
from rivals.verdict import Labels, Scores, Task

SETS = {"digits": load_digits, "breast_cancer": load_breast_cancer, "wine": load_wine}
RATES = (0.1, 0.25, 0.4)
POWERS = (1e-3, 1e3)


def names() -> list[str]:
    return [f"{name}-weak{rate}" for name in SETS for rate in RATES]


def make_weak_cell(name: str, seed: int) -> Cell:
    which, rate = name.rsplit("-weak", 1)
    raw, truth = SETS[which](return_X_y=True)
    rng = np.random.default_rng(seed)
    weak_rows, test_rows, rows = np.split(rng.permutation(len(raw)), [len(raw) // 4, len(raw) // 2])
    features = StandardScaler().fit(raw[rows]).transform(raw).astype(np.float32)
    seen = rng.permutation(features.shape[1])[: max(features.shape[1] // 4, 2)]
    weak = LogisticRegression(max_iter=1000).fit(
        features[np.ix_(weak_rows, seen)], truth[weak_rows]
    )
    probs = weak.predict_proba(features[np.ix_(rows, seen)])
    given = sample_labels(probs, truth[rows], float(rate), rng)
    task = Task(features[rows], given, features[test_rows], int(truth.max()) + 1, seed)
    return Cell(name, "sample", "embeddings", truth[rows], truth[test_rows], task)


def sample_labels(probs: Scores, truth: Labels, rate: float, rng: np.random.Generator) -> Labels:
    """Labels drawn from probs to a power, of which the share ``rate`` is expected to be wrong."""
    rows = np.arange(len(truth))

    def powered(log_power: float) -> Scores:
        logs = np.exp(log_power) * np.log(np.maximum(probs, 1e-12))
        weights = np.exp(logs - logs.max(1, keepdims=True))
        return weights / weights.sum(1, keepdims=True)

    def wrong(log_power: float) -> float:
        return float(1 - powered(log_power)[rows, truth].mean())

    low, high = np.log(POWERS)
    log_power, mixed = high, 1.0
    if wrong(high) > rate:
        mixed = rate / wrong(high)
    elif wrong(low) < rate:
        raise ValueError(f"rate {rate} is above that of random labels, {wrong(low):.2f}")
    else:
        log_power = brentq(lambda power: wrong(power) - rate, low, high)
    cumulative = powered(log_power).cumsum(1)
    drawn = (rng.random((len(truth), 1)) > cumulative).sum(1).clip(0, probs.shape[1] - 1)
    return np.where(rng.random(len(truth)) < mixed, drawn, truth).astype(np.int64)
