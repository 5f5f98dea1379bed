"""How a problem is executed: in which processes its rows are, and in which memory."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

# A workspace that is kept from one solution to the next.
#
# On a CPU, writing to newly allocated pages takes longer than the arithmetic: a sixth of the total
# time at 50,000 rows and ten classes. So the larger arrays of a solution are views of one buffer,
# which the thread keeps for the next solution. Results are copied out of it.

KEPT_BYTES = 32 * 2**20
"""Size above which a buffer is not kept."""

SMALL_BYTES = 128 * 2**10
"""Smaller arrays are allocated as usual: the C library reuses them by itself."""

ALIGNMENT = 64


class Workspace:
    """Returns arrays one after the other from the buffer, or new ones once it is used up."""

    def __init__(self, buffer: Tensor | None = None) -> None:
        self.buffer = _new_buffer(0) if buffer is None else buffer
        self.requested = 0

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        size = math.prod(shape) * dtype.itemsize
        if device.type != "cpu" or size < SMALL_BYTES:
            return torch.empty(shape, dtype=dtype, device=device)
        start = self.requested
        self.requested += -(-size // ALIGNMENT) * ALIGNMENT
        if start + size > len(self.buffer):
            return torch.empty(shape, dtype=dtype, device=device)
        return self.buffer[start : start + size].view(dtype).view(shape)

    def empty_like(self, x: Tensor) -> Tensor:
        return self.empty(tuple(x.shape), x.dtype, x.device)


_kept = threading.local()


@contextmanager
def borrow_workspace() -> Iterator[Workspace]:
    """The thread's workspace, enlarged afterwards if it was too small.

    Nested calls get an empty workspace.
    """
    workspace = Workspace(getattr(_kept, "buffer", None))
    _kept.buffer = None
    try:
        yield workspace
    finally:
        too_small = len(workspace.buffer) < workspace.requested <= KEPT_BYTES
        _kept.buffer = _new_buffer(workspace.requested) if too_small else workspace.buffer


def _new_buffer(size: int) -> Tensor:
    # On the CPU, whatever the user's default device is.
    return torch.empty(size, dtype=torch.uint8, device="cpu")


# Sums over the rows of a problem, which are in this process or sharded over several.
#
# Only a C-vector, a C x C matrix and a K x D matrix are summed over rows, so the communication
# between processes does not grow with N. No other module knows about shards.


class Reduce(Protocol):
    """Reductions of per-row quantities over all rows of the problem."""

    def sum(self, x: Tensor) -> Tensor:
        """Add `x` over all shards."""

    def max(self, x: Tensor) -> Tensor:
        """Take the elementwise maximum of `x` over all shards."""

    def gather(self, x: Tensor) -> tuple[Tensor, slice]:
        """Concatenate `x` along its last axis over all shards; also return which part is ours."""


class OneShard:
    """All rows are in this process."""

    def sum(self, x: Tensor) -> Tensor:
        return x

    def max(self, x: Tensor) -> Tensor:
        return x

    def gather(self, x: Tensor) -> tuple[Tensor, slice]:
        return x, slice(0, x.shape[-1])


class Shards:
    """Each process of `group` holds some of the rows, in the order of the ranks."""

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


@dataclass(frozen=True)
class Execution:
    """Where rows and temporary arrays are. It does not change the solution."""

    reduce: Reduce = field(default_factory=OneShard)
    workspace: Workspace = field(default_factory=Workspace)


def reduction_over(group: ProcessGroup | None) -> Reduce:
    """Sums over the rows of all processes of `group`; None means that all rows are here."""
    if group is None:
        return OneShard()
    if not isinstance(group, torch.distributed.ProcessGroup):
        raise ValueError(
            f"group must be a torch.distributed process group (torch.distributed.group.WORLD for "
            f"all processes), got {group!r}"
        )
    return Shards(group) if torch.distributed.get_world_size(group) > 1 else OneShard()


def without_autocast(given: object) -> AbstractContextManager[object]:
    """Turn off the user's autocast, which would round to half precision."""
    device = given.device.type if isinstance(given, Tensor) else "cpu"
    return torch.autocast(device, enabled=False) if device in ("cpu", "cuda") else nullcontext()
