"""A workspace that is kept from one solution to the next.

On a CPU, writing to newly allocated pages takes longer than the arithmetic: a sixth of the total
time at 50,000 rows and ten classes. So the larger arrays of a solution are views of one buffer,
which the thread keeps for the next solution. Results are copied out of it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

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
