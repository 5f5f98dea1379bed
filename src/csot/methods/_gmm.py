"""Which losses are small: a mixture of two normal distributions."""

from __future__ import annotations

import warnings

import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from torch import Tensor


def small_loss_posterior(losses: Tensor, seed: int) -> Tensor:
    """(N,) losses -> (N,) probability of belonging to the component of the smaller mean.

    Losses are scaled to [0, 1] first. Settings are those of DivideMix.
    """
    low, high = losses.min(), losses.max()
    if not bool(high > low):
        return torch.full_like(losses, 0.5)
    scaled = ((losses - low) / (high - low)).double().cpu().numpy()[:, None]
    mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=seed)
    # Ten iterations are the method's; that they have not converged is no news.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(scaled)
    posterior = mixture.predict_proba(scaled)[:, mixture.means_.argmin()]
    return torch.from_numpy(posterior).to(losses)
