"""Ridge softmax probes that know about label noise, cross-fitted, all folds in one product.

    min_W  mean over training rows of -log sum_k softmax(Wx)_k p(y|k)  +  ridge/2 |W|^2

The gradient in the logits is softmax(Wx) minus the posterior of the truth.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor

from csot.clean.basis import Basis
from csot.clean.folds import Folds

ROWS_AT_A_TIME = 8192
BIAS_RIDGE = 1e-6


def logit_gradient(logits: Tensor, likelihood: Tensor) -> tuple[Tensor, Tensor]:
    """-log sum_k softmax(Z)_k p(y|k), (N, ...), and its gradient in Z, (N, ..., C)."""
    probs = logits.softmax(-1)
    shape = (len(likelihood), *[1] * (logits.ndim - 2), likelihood.shape[-1])
    joint = probs * likelihood.reshape(shape)
    marginal = joint.sum(-1, keepdim=True).clamp_min_(torch.finfo(logits.dtype).tiny)
    return -marginal[..., 0].log(), probs.sub_(joint.div_(marginal))


def fit_probes(
    basis: Basis,
    folds: Folds,
    likelihood: Tensor,
    ridge: float,
    start: Tensor,
    *,
    steps: int = 15,
    tolerance: float = 1e-5,
    trusted: Tensor | None = None,
) -> Tensor:
    """Weights (D, K, C) of K probes, from ``start``; L-BFGS, preconditioned by the variances.

    Rows whose likelihood is the same for every class train nothing, nor do those that ``trusted``
    (N, K) leaves out.
    """
    rows = basis.rows
    dim, n_folds, n_classes = start.shape
    penalty = torch.full((dim, 1, 1), ridge)
    penalty[-1] = BIAS_RIDGE
    # On principal axes the Hessian is nearly diagonal: this makes it nearly the identity.
    scale = (basis.variances[:, None, None] / n_classes + penalty).rsqrt()
    informative = (likelihood.amax(1) > likelihood.amin(1)).float()
    share = folds.training_mask() * informative[:, None]
    if trusted is not None:
        share *= trusted
    share /= share.sum(0).clamp_min(1.0)

    def loss_and_gradient(flat: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        weights = torch.from_numpy(flat).float().view(start.shape) * scale
        columns = weights.reshape(dim, -1)
        loss, gradient = 0.0, torch.zeros(dim, n_folds * n_classes)
        for i in range(0, len(rows), ROWS_AT_A_TIME):
            part = slice(i, i + ROWS_AT_A_TIME)
            x, weight = rows[part], share[part]
            losses, slopes = logit_gradient(
                (x @ columns).view(len(x), n_folds, n_classes), likelihood[part]
            )
            loss += float((losses * weight).sum())
            gradient.addmm_(x.T, slopes.mul_(weight[..., None]).view(len(x), -1))
        loss += 0.5 * float((penalty * weights * weights).sum())
        total = (gradient.view(start.shape) + penalty * weights) * scale
        return loss, total.reshape(-1).double().numpy()

    found = minimize(
        loss_and_gradient,
        (start / scale).reshape(-1).double().numpy(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "ftol": tolerance},
    )
    return torch.from_numpy(found.x).float().view(start.shape) * scale


def no_weights(basis: Basis, folds: Folds, n_classes: int) -> Tensor:
    """Probes that say nothing yet."""
    return torch.zeros(basis.rows.shape[1], folds.n_folds, n_classes)


def held_out_logits(basis: Basis, folds: Folds, weights: Tensor) -> Tensor:
    """Each row's logits (N, C) by the probe that did not train on it."""
    logits = torch.empty(len(basis.rows), weights.shape[2])
    for k in range(folds.n_folds):
        rows = folds.held_out(k)
        logits[rows] = basis.rows[rows] @ weights[:, k]
    return logits
