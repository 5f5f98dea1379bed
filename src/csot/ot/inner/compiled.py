"""Newton's method, compiled where that pays: the door from torch to ``newton_numba`` and back."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from types import ModuleType

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from csot.ot.inner import newton as torch_newton
from csot.ot.inner.hessian import KINK_WIDTH
from csot.ot.inner.kernel import REACH, Kernel, ScalingState
from csot.ot.inner.newton import InnerSolution, Stopping, finish
from csot.ot.numerics import negligible
from csot.ot.reduce import OneShard

MOST_CLASSES = 128
MOST_ENTRIES = 2_000_000
"""Beyond these BLAS and several cores are worth more than the calls they cost."""

LARGEST_LIMIT = 2**62
"""What fits an integer of compiled code."""


def newton(kernel: Kernel, log_v: Tensor, stopping: Stopping) -> InnerSolution:
    """``newton.newton``; one small problem on a CPU in loops, if numba is there to compile them."""
    loops = _loops() if _is_small(kernel) and stopping.fixed is None else None
    if loops is None:
        return torch_newton.newton(kernel, log_v, stopping)
    marginals = kernel.marginals
    absent = marginals.without_share
    rules = loops.Rules(
        tolerance=stopping.tolerance,
        limit=min(stopping.limit, LARGEST_LIMIT),
        patience=torch_newton.NEWTON_PATIENCE,
        reach=REACH,
        longest_step=torch_newton.LONGEST_STEP,
        kink_width=KINK_WIDTH,
        first_damping=torch_newton.FIRST_DAMPING,
        least_damping=torch_newton.LEAST_DAMPING,
        negligible=negligible(torch.float64),
    )
    place = loops.Place(log_v[0].contiguous().numpy(), 0, 0.0, float("inf"), 0)
    verdict = loops.ABSORB
    while verdict == loops.ABSORB:
        kernel.absorb(_row(place.log_v))
        frame = loops.Frame(
            kernel=kernel.absorbed[0].numpy(),
            scratch=kernel.scratch[0].numpy(),
            a=marginals.a[0].numpy(),
            shift=kernel.shift[0].numpy(),
            most=kernel.most[0].numpy(),
            targets=marginals.targets[0].numpy(),
            absent=(torch.zeros_like(marginals.b) if absent is None else absent)[0].numpy(),
            log_v0=place.log_v,
            balanced=marginals.balanced,
        )
        verdict, place, view = loops.climb(frame, rules, place)
    if verdict == loops.HARD:
        rest = replace(stopping, limit=max(1, stopping.limit - place.steps))
        solution = torch_newton.newton(kernel, _row(place.log_v), rest)
        return replace(solution, iterations=solution.iterations + place.steps)
    return finish(kernel, ScalingState(_row(place.log_v), *map(_row, view)), place.steps)


def _row(values: npt.NDArray[np.float64]) -> Tensor:
    """As the only problem of a batch, in the same memory."""
    return torch.from_numpy(values)[None]


def _is_small(kernel: Kernel) -> bool:
    batch, n_classes, n = kernel.absorbed.shape
    return (
        batch == 1
        and n_classes <= MOST_CLASSES
        and n * n_classes <= MOST_ENTRIES
        and kernel.absorbed.device.type == "cpu"
        and isinstance(kernel.reduce, OneShard)
    )


def is_available() -> bool:
    """Whether numba is there to compile."""
    return _loops() is not None


@cache
def _loops() -> ModuleType | None:
    """``newton_numba``, tried once; None without numba (``pip install 'csot[fast]'``).

    Also None, with a warning, whatever else goes wrong: numba does not go with this NumPy, finds
    no folder to keep what it compiles, or a damaged one. Torch can do the same.
    """
    try:
        from csot.ot.inner import newton_numba

        _try_out(newton_numba)
    except ModuleNotFoundError:
        return None
    except Exception as error:
        warnings.warn(f"csot.solve: numba fails ({error}); going on without it", stacklevel=2)
        return None
    return newton_numba


def _try_out(loops: ModuleType) -> None:
    """Smoke test on a 2 x 2 problem."""
    ones = np.ones(2)
    kernel = np.array([[1.0, 0.5], [0.5, 1.0]])
    frame = loops.Frame(
        kernel, kernel.copy(), ones / 2, ones - 1, ones, ones / 4, ones - 1, ones - 1, False
    )
    rules = loops.Rules(1e-6, 10, 10, 8.0, 5.0, 10.0, 1e-3, 1e-5, 1e-120)
    loops.climb(frame, rules, loops.Place(ones - 1, 0, 0.0, float("inf"), 0))
