"""What a view is: random choices first, for the whole batch; then pixels, on any device.

The choices for B samples are made on the CPU, by the generator that is passed, before the batch is
shared among processes. Rows are then independent: `view(x[p], draws[p])` equals
`view(x, draws)[p]` to the bit. So several processes see what one would have seen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Draws:
    """Random choices for `count` samples: tensors on the CPU, each with that leading dimension."""

    values: Mapping[str, Tensor]
    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, positions: Tensor | slice) -> Draws:
        """The rows at `positions`: indices, a mask or a slice."""
        if isinstance(positions, Tensor):
            positions = positions.cpu()
        count = len(torch.empty(self.count)[positions])
        return Draws({name: value[positions] for name, value in self.values.items()}, count)

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The choices of one step: `crop.top` is its `top`."""
        start = prefix + "."
        return {
            name.removeprefix(start): value
            for name, value in self.values.items()
            if name.startswith(start)
        }


class View(ABC):
    """A random transform of a batch."""

    @abstractmethod
    def draw(self, count: int, generator: torch.Generator) -> Draws:
        """All random choices for `count` samples."""

    @abstractmethod
    def __call__(self, inputs: Tensor, draws: Draws) -> Tensor:
        """uint8 (B, ch, H, W) or float32 (B, D) -> float32, normalised, on the same device."""


@dataclass(frozen=True)
class Views:
    """The views of one data set; `plain` is the test transform, without randomness."""

    plain: View
    weak: View
    strong: View


class Step(ABC):
    """A random change of uint8 images (B, ch, H, W), one of several in an `ImageView`."""

    @abstractmethod
    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]: ...

    @abstractmethod
    def apply(self, images: Tensor, choices: dict[str, Tensor]) -> Tensor: ...


@dataclass(frozen=True)
class ImageView(View):
    """Steps on bytes, then (x / 255 - mean) / std."""

    steps: Mapping[str, Step]
    mean: Sequence[float]
    std: Sequence[float]

    def draw(self, count: int, generator: torch.Generator) -> Draws:
        values = {
            f"{name}.{key}": value
            for name, step in self.steps.items()
            for key, value in step.draw(count, generator).items()
        }
        return Draws(values, count)

    def __call__(self, inputs: Tensor, draws: Draws) -> Tensor:
        check_rows(inputs, draws)
        for name, step in self.steps.items():
            inputs = step.apply(inputs, draws.part(name))
        mean, std = (
            torch.tensor(value, device=inputs.device).view(-1, 1, 1)
            for value in (self.mean, self.std)
        )
        return inputs.float().sub_(255 * mean).div_(255 * std)


def check_rows(inputs: Tensor, draws: Draws) -> None:
    if len(inputs) != len(draws):
        raise ValueError(
            f"{len(inputs)} samples, but choices for {len(draws)}: draw for the whole batch, then "
            f"take the same rows of both"
        )


def uniform(generator: torch.Generator, *size: int, low: float = 0.0, high: float = 1.0) -> Tensor:
    return torch.rand(size, generator=generator) * (high - low) + low


def chance(generator: torch.Generator, count: int, probability: float) -> Tensor:
    """(count,), true with this probability."""
    return torch.rand(count, generator=generator) < probability


def integers(generator: torch.Generator, count: int, high: int) -> Tensor:
    """(count,), from 0 to `high` - 1."""
    return torch.randint(high, (count,), generator=generator)
