"""NumPy arrays and torch tensors: results have the type of the input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array: TypeAlias = Tensor | npt.NDArray[Any]
"""A torch tensor or a NumPy array."""


@dataclass(frozen=True)
class ArrayAdapter:
    """Converts the user's arrays to tensors of the solver, and results back to the user's type."""

    numpy: bool
    batched: bool
    device: torch.device
    """That of the user's tensors."""
    dtype: torch.dtype

    def tensor(self, name: str, value: object) -> Tensor:
        """Another argument as a tensor on the device of the computation."""
        where = computing_device(self.device)
        return as_tensor(name, value, self.device if isinstance(value, Tensor) else where).to(where)

    def batch_of(self, name: str, value: object, axes: int) -> Tensor:
        """A tensor with `axes` axes after a batch axis, which is added for a single problem."""
        tensor = self.tensor(name, value)
        if tensor.ndim != axes + self.batched:
            needed = axes + self.batched
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}; {needed} "
                f"{'axis is' if needed == 1 else 'axes are'} needed for "
                f"{'a batch of problems' if self.batched else 'a single problem'}"
            )
        return tensor if self.batched else tensor[None]

    def out(self, x: Tensor, *, has_batch: bool = True) -> Array:
        """A result (B, ...) in the user's type, without the batch axis for a single problem.

        `has_batch=False` if there is no batch axis to remove.
        """
        x = x[0] if has_batch and not self.batched else x
        if x.device != self.device:
            x = x.to(self.device, torch.float32 if x.dtype == torch.float64 else x.dtype)
        return x.numpy() if self.numpy else x

    def number(self, x: Tensor) -> Any:
        """(B,) as an array for a batch, as a plain number for a single problem."""
        return self.out(x.clone()) if self.batched else x[0].item()


def computing_device(device: torch.device) -> torch.device:
    """Where problems of a device are solved: on the CPU for MPS, which has no float64."""
    return torch.device("cpu") if device.type == "mps" else device


def as_tensor(name: str, value: object, device: torch.device | None = None) -> Tensor:
    """A tensor that shares memory with `value` where possible; an error if it is not an array."""
    if isinstance(value, Tensor):
        if value.is_complex():
            raise ValueError(f"{name} must hold real numbers, got a tensor of {value.dtype}")
        tensor = value.detach()
        if device is not None and tensor.device != device:
            raise ValueError(
                f"{name} is on device {tensor.device} but pred_probs is on {device}; "
                f"move one with {name}.to({str(device)!r})"
            )
        return tensor
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"dtype {array.dtype}")
        if not (array.flags.writeable and array.flags.aligned) or min(array.strides, default=0) < 0:
            array = array.copy()
        return torch.from_numpy(array).to(device)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be a NumPy array or torch tensor of numbers, got {type(value).__name__} "
            f"({error})"
        ) from error


def floating(tensor: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """float32 and float64 are kept; half precisions and integers are converted to float32."""
    if dtype is None:
        dtype = tensor.dtype if tensor.dtype in (torch.float32, torch.float64) else torch.float32
    return tensor.to(dtype)
