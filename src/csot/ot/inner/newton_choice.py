"""Newton's method, compiled where that is faster: calls `newton_numba` or `newton`."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from types import ModuleType

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from csot.ot.execution import OneShard
from csot.ot.inner import newton as torch_newton
from csot.ot.inner.kernel import MAX_DRIFT, Kernel, ScalingState
from csot.ot.inner.newton_rules import RULES
from csot.ot.inner.scaling import InnerSolution, Stopping, finish
from csot.ot.numerics import negligible

MAX_CLASSES = 128
MAX_ENTRIES = 2_000_000
"""Entries of the largest problem compiled; beyond, BLAS and several cores are faster."""

MAX_LIMIT = 2**62
"""The largest iteration limit, which must fit a 64-bit integer."""


def newton(kernel: Kernel, log_v: Tensor, stopping: Stopping) -> InnerSolution:
    """Newton's method: in compiled loops for one small problem on a CPU, otherwise in torch."""
    loops = _loops() if _is_small(kernel) and stopping.fixed is None else None
    if loops is None:
        return torch_newton.newton(kernel, log_v, stopping)
    limits = loops.Limits(stopping.tolerance, min(stopping.limit, MAX_LIMIT))
    iterate = loops.Iterate(log_v[0].contiguous().numpy(), 0, 0.0, float("inf"), 0)
    reason = loops.ABSORB
    while reason == loops.ABSORB:
        kernel.absorb(_batch_of_one(iterate.log_v))
        absorbed = _absorbed_kernel(loops, kernel, iterate.log_v)
        reason, iterate, found = loops.newton(absorbed, RULES, limits, iterate)
    log_v = _batch_of_one(iterate.log_v)
    if reason == loops.UNDERFLOW:
        rest = replace(stopping, limit=max(1, stopping.limit - iterate.iterations))
        solution = torch_newton.newton(kernel, log_v, rest)
        return replace(solution, iterations=solution.iterations + iterate.iterations)
    return finish(kernel, ScalingState(log_v, *map(_batch_of_one, found)), iterate.iterations)


def _absorbed_kernel(
    loops: ModuleType, kernel: Kernel, log_v0: npt.NDArray[np.float64]
) -> tuple[object, ...]:
    """The arrays of the kernel as NumPy arrays that share their memory."""
    marginals = kernel.marginals
    without_share = marginals.without_share
    if without_share is None:
        without_share = torch.zeros_like(marginals.b)
    arrays: tuple[object, ...] = loops.AbsorbedKernel(
        entries=kernel.absorbed[0].numpy(),
        scratch=kernel.scratch[0].numpy(),
        a=marginals.a[0].numpy(),
        shift=kernel.shift[0].numpy(),
        max_row_scale=kernel.max_row_scale[0].numpy(),
        targets=marginals.targets[0].numpy(),
        without_share=without_share[0].numpy(),
        log_v0=log_v0,
        balanced=marginals.balanced,
        max_drift=MAX_DRIFT,
        underflow=negligible(torch.float64),
    )
    return arrays


def _batch_of_one(values: npt.NDArray[np.float64]) -> Tensor:
    """A tensor with a batch axis that shares the memory of the array."""
    return torch.from_numpy(values)[None]


def _is_small(kernel: Kernel) -> bool:
    batch, n_classes, n = kernel.absorbed.shape
    return (
        batch == 1
        and n_classes <= MAX_CLASSES
        and n * n_classes <= MAX_ENTRIES
        and kernel.absorbed.device.type == "cpu"
        and isinstance(kernel.reduce, OneShard)
    )


def is_available() -> bool:
    """Whether numba can be used."""
    return _loops() is not None


@cache
def _loops() -> ModuleType | None:
    """`newton_numba`, tried once; None without numba (`pip install 'csot[fast]'`).

    Also None, with a warning, after any other failure: numba does not support this NumPy, or its
    cache folder cannot be written. Torch is used instead.
    """
    try:
        from csot.ot.inner import newton_numba

        try:
            _try_out(newton_numba)
        except Exception:
            # The cache may be damaged, or written by another version of this module.
            _flush_cache(newton_numba)
            _try_out(newton_numba)
    except ModuleNotFoundError:
        return None
    except Exception as error:
        warnings.warn(f"csot.solve: numba fails ({error}); using torch instead", stacklevel=2)
        return None
    return newton_numba


def _flush_cache(loops: ModuleType) -> None:
    """Discard the compiled code that numba keeps on disk for the functions of a module."""
    for function in vars(loops).values():
        if hasattr(function, "_cache"):
            function._cache.flush()


def _try_out(loops: ModuleType) -> None:
    """Smoke test on a 2 x 2 problem."""
    ones, zeros = np.ones(2), np.zeros(2)
    kernel = np.array([[1.0, 0.5], [0.5, 1.0]])
    absorbed = loops.AbsorbedKernel(
        entries=kernel,
        scratch=kernel.copy(),
        a=ones / 2,
        shift=zeros,
        max_row_scale=ones,
        targets=ones / 4,
        without_share=zeros,
        log_v0=zeros,
        balanced=False,
        max_drift=MAX_DRIFT,
        underflow=negligible(torch.float64),
    )
    start = loops.Iterate(zeros, 0, 0.0, float("inf"), 0)
    loops.newton(absorbed, RULES, loops.Limits(1e-6, 10), start)
