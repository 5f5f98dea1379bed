"""Working memory that outlives a solution.

A CPU spends more time on fresh pages than on the numbers that are written to them: a sixth of all
at 50,000 rows and ten classes. So the larger arrays of a solution lie in one slab that the thread
keeps for the next one. What a solution returns is copied out of it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

KEPT_BYTES = 32 * 2**20
"""A slab that is kept is no larger."""

SMALL_BYTES = 128 * 2**10
"""The C library reuses smaller pieces by itself."""

ALIGNMENT = 64


class Memory:
    """Hands out arrays, one after the other from the slab, until one does not fit."""

    def __init__(self, slab: Tensor | None = None) -> None:
        self.slab = _new_slab(0) if slab is None else slab
        self.wanted = 0

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        size = math.prod(shape) * dtype.itemsize
        if device.type != "cpu" or size < SMALL_BYTES:
            return torch.empty(shape, dtype=dtype, device=device)
        start = self.wanted
        self.wanted += -(-size // ALIGNMENT) * ALIGNMENT
        if start + size > len(self.slab):
            return torch.empty(shape, dtype=dtype, device=device)
        return self.slab[start : start + size].view(dtype).view(shape)

    def empty_like(self, x: Tensor) -> Tensor:
        return self.empty(tuple(x.shape), x.dtype, x.device)


_kept = threading.local()


@contextmanager
def working_memory() -> Iterator[Memory]:
    """The thread's slab; who asks within the ``with`` of another gets none. Grows for next time."""
    memory = Memory(getattr(_kept, "slab", None))
    _kept.slab = None
    try:
        yield memory
    finally:
        too_small = len(memory.slab) < memory.wanted <= KEPT_BYTES
        _kept.slab = _new_slab(memory.wanted) if too_small else memory.slab


def _new_slab(size: int) -> Tensor:
    # Whatever device the user has made the default.
    return torch.empty(size, dtype=torch.uint8, device="cpu")
