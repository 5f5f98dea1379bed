"""Several processes that train as one.

Every process draws the same random numbers for the whole batch and takes every W-th row of it, from
its own rank on. Losses fetch what they need of the other rows through `Ranks`, whose methods return
their input when there is one process. Shares have equal sizes, so the mean of means is the mean.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dist_grad
from torch import Tensor


class Ranks:
    """Which process this is, of how many."""

    def __init__(self, rank: int = 0, world: int = 1) -> None:
        self.rank = rank
        self.world = world

    def share(self, count: int) -> Tensor:
        """Positions of this process's rows among `count` rows of a whole batch."""
        return torch.arange(self.rank, count, self.world)

    def gather(self, local: Tensor) -> Tensor:
        """This process's share of a batch -> the whole batch, in its order; no gradient."""
        if self.world == 1:
            return local
        parts = [torch.empty_like(local) for _ in range(self.world)]
        dist.all_gather(parts, local.detach().contiguous())
        return torch.stack(parts, dim=1).flatten(0, 1)

    def mean(self, local: Tensor) -> Tensor:
        """Mean over the processes, with its gradient."""
        if self.world == 1:
            return local
        # Its type stubs say Any; it returns the reduced tensor.
        total: Tensor = dist_grad.all_reduce(local)  # type: ignore[no-untyped-call]
        return total / self.world

    def from_first(self, value: Tensor) -> Tensor:
        """What the first process has: a decision is made once, so that no process differs."""
        if self.world > 1:
            value = value.contiguous()
            dist.broadcast(value, src=0)
        return value
