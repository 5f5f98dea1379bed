"""Numerical details: the cost of a zero, tolerances by dtype, flushing of denormals."""

import math
import warnings

import torch
from torch import Tensor

# A probability of exactly zero costs as much as the smallest positive float32, about 103 nats:
# high enough never to be preferred, and finite so that every class can still get its total.
LOG_ZERO = math.log(2.0**-149)

CHUNK = 8192
"""Number of samples whose temporary arrays are held at once in sums over samples."""

LARGE = 200_000
"""Element count above which temporaries are avoided."""


class ConvergenceWarning(UserWarning):
    """The solver stopped at its iteration limit; the plan is feasible but may not be optimal."""


def marginal_tolerance(dtype: torch.dtype) -> float:
    """Relative error of a column sum at which an inner problem counts as solved."""
    return 1e-11 if dtype == torch.float64 else 1e-5


def rounding_threshold(dtype: torch.dtype) -> float:
    """Relative violation of a marginal above which a plan is rounded onto its polytope."""
    return 1e-9 if dtype == torch.float64 else 1e-6


def plan_precision(tolerance: float, dtype: torch.dtype) -> float:
    """Change of an entry, relative to the capacity of its row, that counts as negligible."""
    return max(tolerance, 1e-9 if dtype == torch.float64 else 1e-4)


def negligible(dtype: torch.dtype) -> float:
    """Entries below this are set to zero.

    They are far below the rounding error of any sum they enter, and their products would be
    denormals, which are many times slower on a CPU.
    """
    return 1e-120 if dtype == torch.float64 else 1e-28


def widest_float(device: torch.device) -> torch.dtype:
    """float64, or float32 on devices without float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def flush_(x: Tensor, below: float) -> Tensor:
    """Set entries of `x` that are not above `below` to zero, in place."""
    return torch.nn.functional.threshold(x, below, 0.0, inplace=True)


def dot(x: Tensor, y: Tensor) -> Tensor:
    """<x_b, y_b> for each problem b of (B, C, N) tensors, as float64.

    Sums over N by BLAS, then over C in float64: a plain float32 sum over all entries would be too
    inaccurate for the stopping rule.
    """
    if x.numel() > LARGE:
        # Does not store the product. For small arrays einsum itself takes longer.
        return torch.einsum("bcn,bcn->bc", x, y).sum(-1, dtype=torch.float64)
    rows: Tensor = torch.linalg.vecdot(x, y)
    return rows.sum(-1, dtype=torch.float64)


def chunks(n: int) -> list[slice]:
    """Split n samples into parts whose temporary arrays fit into the cache."""
    return [slice(i, i + CHUNK) for i in range(0, n, CHUNK)]


def inverse_or_zero(norms: Tensor) -> Tensor:
    return torch.where(norms > 0, 1 / norms, 0.0)


def csr_matrix(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A sparse matrix from entries that are sorted by row."""
    starts = torch.zeros(shape[0] + 1, dtype=torch.int64, device=rows.device)
    torch.cumsum(torch.bincount(rows, minlength=shape[0]), 0, out=starts[1:])
    with warnings.catch_warnings():
        # torch warns once per process that CSR is in beta; only products with vectors are used.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)
