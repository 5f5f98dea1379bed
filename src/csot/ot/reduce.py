"""Sums over the rows of a problem, which are in this process or sharded over several.

Only a C-vector, a C x C matrix and a K x D matrix are summed over rows, so the communication
between processes does not grow with N. No other module knows about shards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Reduce(Protocol):
    """Reductions of per-row quantities over all rows of the problem."""

    def sum(self, x: Tensor) -> Tensor:
        """Add ``x`` over all shards."""

    def max(self, x: Tensor) -> Tensor:
        """Take the elementwise maximum of ``x`` over all shards."""

    def gather(self, x: Tensor) -> tuple[Tensor, slice]:
        """Concatenate ``x`` along its last axis over all shards; also return which part is ours."""


class OneShard:
    """All rows are in this process."""

    def sum(self, x: Tensor) -> Tensor:
        return x

    def max(self, x: Tensor) -> Tensor:
        return x

    def gather(self, x: Tensor) -> tuple[Tensor, slice]:
        return x, slice(0, x.shape[-1])


class Shards:
    """Each process of ``group`` holds some of the rows, in the order of the ranks."""

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group

    def sum(self, x: Tensor) -> Tensor:
        x = x.contiguous()
        dist.all_reduce(x, dist.ReduceOp.SUM, group=self._group)
        return x

    def max(self, x: Tensor) -> Tensor:
        x = x.contiguous()
        dist.all_reduce(x, dist.ReduceOp.MAX, group=self._group)
        return x

    def gather(self, x: Tensor) -> tuple[Tensor, slice]:
        rank, world = dist.get_rank(self._group), dist.get_world_size(self._group)
        sizes = torch.zeros(world, dtype=torch.long, device=x.device)
        sizes[rank] = x.shape[-1]
        lengths: list[int] = self.sum(sizes).tolist()
        # Some backends only gather arrays of equal length: pad, then cut.
        padded = x.new_zeros((*x.shape[:-1], max(lengths)))
        padded[..., : x.shape[-1]] = x
        parts = [torch.empty_like(padded) for _ in range(world)]
        dist.all_gather(parts, padded, group=self._group)
        whole = torch.cat([part[..., :n] for part, n in zip(parts, lengths, strict=True)], dim=-1)
        start = sum(lengths[:rank])
        return whole, slice(start, start + lengths[rank])


def log_sum_over_samples(x: Tensor, reduce: Reduce) -> Tensor:
    """log sum_i exp(x_bki) over the samples of all shards: (B, C, N) -> (B, C). Overwrites x."""
    peak = reduce.max(x.amax(-1))
    total = reduce.sum(x.sub_(peak[..., None]).exp_().sum(-1))
    return peak + total.log()
