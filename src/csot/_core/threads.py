"""How OpenMP threads wait for one another, and how many a small problem gets.

By default OpenMP threads spin while they wait, and use the cores that other processes need: beside
one busy process everything takes 3 to 20 times as long. docs/performance.md has what was
measured of threads that sleep. OpenMP reads its environment once, when torch is loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

POLICY = "OMP_WAIT_POLICY"
"""Respected by libgomp (Linux), libomp (macOS) and libiomp5 (conda) alike."""
CHOICES = (POLICY, "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""If the user has set one of these, it is left unchanged."""
SMALL = 2**16
"""Numbers up to which a second thread would have less than a fifth of the work."""

_made_passive = False
"""Whether this module decided how the threads of torch wait."""


def wait_passively() -> None:
    """Let the threads of this process sleep while they wait: for programs of csot's own."""
    global _made_passive
    if _is_free():
        os.environ[POLICY] = "PASSIVE"
        _made_passive = True


def load_torch() -> None:
    """Import torch with threads that sleep; the environment is left as it was."""
    global _made_passive
    if _is_free():
        os.environ[POLICY] = "PASSIVE"
        try:
            import torch  # noqa: F401
        finally:
            del os.environ[POLICY]
        _made_passive = True


@contextmanager
def threads_for(numbers: int, *, small_if_passive: int = 0) -> Iterator[None]:
    """One thread inside, if the problem is small and torch was loaded with threads that spin.

    Where threads sleep instead, they have to be woken for every operation: with many short ones,
    one thread is faster up to `small_if_passive` numbers.

    Torch keeps this number per calling thread, so calls may be nested and made from several threads
    at once. A thread that first uses torch meanwhile starts with one, too.
    """
    import torch

    before = torch.get_num_threads()
    if before == 1 or numbers > (small_if_passive if _are_passive() else SMALL):
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _is_free() -> bool:
    """Whether torch is still to be loaded, and the user has not chosen how threads wait."""
    return "torch" not in sys.modules and not any(name in os.environ for name in CHOICES)


def _are_passive() -> bool:
    """Whether threads sleep while they wait, by our choice or the user's."""
    chosen = os.environ.get(POLICY, "").upper() == "PASSIVE"
    return _made_passive or chosen or "0" in map(os.environ.get, CHOICES[1:])
