"""Random Fourier features: a ridge probe on them is a kernel machine, for small data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

N_FEATURES = 512
WIDTHS = (0.5, 1.0, 2.0)
"""Of the median distance between rows."""


@dataclass(frozen=True)
class FourierMap:
    """x -> (cos(x Omega + phase), x / width)."""

    frequencies: Tensor
    phases: Tensor
    width: float

    @staticmethod
    def draw(rows: Tensor, seed: int) -> FourierMap:
        generator = torch.Generator().manual_seed(seed)
        sample = rows[torch.randperm(len(rows), generator=generator)[:1000]]
        half = len(sample) // 2
        width = float(torch.cdist(sample[:half], sample[half : 2 * half]).median())
        width = max(width, 1e-6)
        scales = torch.tensor(WIDTHS).repeat(math.ceil(N_FEATURES / len(WIDTHS)))[:N_FEATURES]
        frequencies = torch.randn(rows.shape[1], N_FEATURES, generator=generator)
        phases = torch.rand(N_FEATURES, generator=generator) * 2 * math.pi
        return FourierMap(frequencies * scales / width, phases, width)

    def __call__(self, rows: Tensor) -> Tensor:
        waves = rows @ self.frequencies.to(rows.dtype) + self.phases.to(rows.dtype)
        return torch.cat([waves.cos(), rows / self.width], 1)
