"""Mixup: convex combinations of rows and of their targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from csot.methods._ranks import Ranks


@dataclass(frozen=True)
class Mix:
    """One draw: how much of itself each row keeps, and which row it meets."""

    keep: float
    partners: Tensor
    """(b,) for this process's rows, as positions in the whole batch."""
    ranks: Ranks

    def __call__(self, values: Tensor) -> Tensor:
        """keep * own + (1 - keep) * partner's, for inputs or for targets."""
        whole = self.ranks.gather(values)
        return self.keep * values + (1 - self.keep) * whole[self.partners.to(values.device)]


def draw_mix(
    count: int,
    alpha: float,
    generator: torch.Generator,
    ranks: Ranks,
    *,
    own_side: bool = True,
) -> Mix:
    """For `count` rows over all processes: lambda from Beta(alpha, alpha), one for the batch.

    `own_side` takes max(lambda, 1 - lambda), so that a mixed row stays nearest to itself.
    """
    keep = _beta(alpha, generator)
    partners = torch.randperm(count, generator=generator)
    return Mix(max(keep, 1 - keep) if own_side else keep, partners[ranks.share(count)], ranks)


def _beta(alpha: float, generator: torch.Generator) -> float:
    """Beta(alpha, alpha). torch.distributions takes no generator, NumPy's takes a seed from it."""
    seed = int(torch.randint(2**62, (), generator=generator))
    return float(np.random.default_rng(seed).beta(alpha, alpha))
