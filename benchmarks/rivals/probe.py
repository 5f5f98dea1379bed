"""The plain linear probe that rivals are given: softmax regression with a ridge.

    min_W  mean over training rows of -log softmax(W'x)_y  +  ridge/2 |W|^2

Coordinates are principal axes scaled to mean variance one, and a constant. The ridge is chosen by
the held-out log-likelihood of the given labels in 5-fold cross-validation. It shares no code with
the cleaner, so that it does not change when the cleaner does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from rivals.verdict import Floats, Labels, Mask, Scores

RIDGES = (3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4)
FOLDS = 5
BIAS_RIDGE = 1e-6
BLOCK = 8192


class Axes:
    """Map to centred principal axes of mean variance one, with a constant last."""

    def __init__(self, features: Floats) -> None:
        rows = torch.from_numpy(np.ascontiguousarray(features, np.float32)).double()
        self.mean = rows.mean(0)
        _, spread, axes = torch.linalg.svd(
            torch.linalg.qr(rows - self.mean, mode="r").R, full_matrices=False
        )
        variance = spread.square() / len(rows)
        kept = variance > 1e-6 * variance[0]
        scale = variance[kept].mean().sqrt()
        self.turn = axes[kept].T / scale
        self.variance = torch.cat([variance[kept] / scale**2, torch.ones(1)]).float()

    def __call__(self, features: Floats) -> Tensor:
        rows = torch.from_numpy(np.asarray(features, np.float32))
        turned = (rows - self.mean.float()) @ self.turn.float()
        return torch.cat([turned, turned.new_ones(len(turned), 1)], 1)


def fit_softmax(
    rows: Tensor,
    variance: Tensor,
    labels: Labels,
    weights: Tensor,
    ridge: float,
    start: Tensor,
    *,
    steps: int,
    tolerance: float,
) -> Tensor:
    """Coefficients (D, K, C) of K probes; ``weights`` (N, K) says which rows train which probe."""
    target = torch.from_numpy(labels)
    share = weights / weights.sum(0)
    penalty = torch.full((len(variance), 1, 1), ridge)
    penalty[-1] = BIAS_RIDGE
    # The Hessian is nearly diagonal on principal axes: these units bring it near the identity.
    unit = (variance[:, None, None] / start.shape[2] + penalty).rsqrt()

    def objective(flat: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        coefficients = torch.from_numpy(flat).float().view_as(start) * unit
        value = 0.5 * float((penalty * coefficients.square()).sum())
        slope = (penalty * coefficients).flatten(1)
        for x, y, w in zip(rows.split(BLOCK), target.split(BLOCK), share.split(BLOCK), strict=True):
            logs = (x @ coefficients.flatten(1)).view(-1, *start.shape[1:]).log_softmax(2)
            own = y[:, None, None].expand(-1, start.shape[1], 1)
            value -= float((logs.gather(2, own)[..., 0] * w).sum())
            error = logs.exp_().scatter_add_(2, own, -torch.ones(own.shape))
            slope += x.T @ (error * w[..., None]).flatten(1)
        return value, (slope.view_as(start) * unit).double().numpy().ravel()

    found = minimize(
        objective,
        (start / unit).double().numpy().ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "ftol": tolerance},
    )
    return torch.from_numpy(found.x).float().view_as(start) * unit


@dataclass(frozen=True)
class CrossValidated:
    """Held-out probabilities (N, C) of every row, and what is needed to fit again."""

    axes: Axes
    rows: Tensor
    labels: Labels
    ridge: float
    probs: Scores
    start: Tensor

    def refit(self, kept: Mask) -> Tensor:
        """Coefficients (D, C) of one probe trained on the kept rows."""
        weights = torch.from_numpy(kept.astype(np.float32))[:, None]
        fitted = fit_softmax(
            self.rows, self.axes.variance, self.labels, weights, self.ridge, self.start,
            steps=80, tolerance=1e-7,
        )  # fmt: skip
        return fitted[:, 0]

    def predict(self, coefficients: Tensor, features: Floats) -> Labels:
        return (self.axes(features) @ coefficients).argmax(1).numpy()


def cross_validate(features: Floats, labels: Labels, n_classes: int, seed: int) -> CrossValidated:
    """Go from a strong ridge to a weak one while held-out log-likelihood improves."""
    axes = Axes(features)
    rows, target = axes(features), torch.from_numpy(labels)
    fold = np.empty(len(labels), dtype=np.int64)
    splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    for k, (_, held_out) in enumerate(splitter.split(fold, labels)):
        fold[held_out] = k
    trains = torch.from_numpy(fold[:, None] != np.arange(FOLDS)).float()
    coefficients = torch.zeros(rows.shape[1], FOLDS, n_classes)
    best: tuple[float, float, Tensor, Tensor] | None = None
    for ridge in RIDGES:
        coefficients = fit_softmax(
            rows, axes.variance, labels, trains, ridge, coefficients, steps=60, tolerance=1e-5
        )
        logits = torch.empty(len(labels), n_classes)
        for k in range(FOLDS):
            held = torch.from_numpy(np.flatnonzero(fold == k))
            logits[held] = rows[held] @ coefficients[:, k]
        logs = logits.double().log_softmax(1)
        loss = -float(logs.gather(1, target[:, None]).mean())
        if best is not None and loss > best[0]:
            break
        best = loss, ridge, logs.exp(), coefficients.mean(1, keepdim=True)
    assert best is not None
    return CrossValidated(axes, rows, labels, best[1], best[2].numpy(), best[3])


class LinearProbe(ClassifierMixin, BaseEstimator):
    """The probe as a scikit-learn classifier, for cleanlab's CleanLearning."""

    def __init__(self, ridge: float = 1e-2, n_classes: int = 10) -> None:
        self.ridge = ridge
        self.n_classes = n_classes

    def fit(self, X: Floats, y: Labels, sample_weight: Any = None) -> LinearProbe:
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        self.axes_ = Axes(X)
        self.coefficients_ = fit_softmax(
            self.axes_(X),
            self.axes_.variance,
            np.asarray(y, np.int64),
            torch.from_numpy(weights).float()[:, None],
            self.ridge,
            torch.zeros(len(self.axes_.variance), 1, self.n_classes),
            steps=80,
            tolerance=1e-7,
        )[:, 0]
        self.classes_ = np.arange(self.n_classes)
        return self

    def predict_proba(self, X: Floats) -> Scores:
        return (self.axes_(X) @ self.coefficients_).double().softmax(1).numpy()

    def predict(self, X: Floats) -> Labels:
        return self.predict_proba(X).argmax(1)
