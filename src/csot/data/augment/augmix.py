"""AugMix: a mixture of the image and of three chains of one to three operations each.

    (1 - m) image + m sum_i w_i chain_i(image),    w from Dirichlet(1, 1, 1), m from Beta(1, 1)

Hendrycks et al. 2020, with the operations and the severity of RRL and NGC. By a slip their code
makes one of the three chains only; here are all three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from csot.data.augment.autoaugment import CODES, FACTORS, GEOMETRIC, matrices, operate
from csot.data.augment.view_types import Step, integers, uniform

WIDTH, DEPTH = 3, 3
"""Chains, and the most operations in each."""
LOWEST = 0.1
"""Levels are from here to the severity, of 10."""
POOL = (
    "auto_contrast",
    "equalize",
    "posterize",
    "solarize",
    *GEOMETRIC,
    *FACTORS,
)
SCALES: Mapping[str, float] = {
    "rotate": 30,
    "shear_x": 0.3,
    "shear_y": 0.3,
    "translate_x": 1 / 3,
    "translate_y": 1 / 3,
    **dict.fromkeys(FACTORS, 1.8),
    "posterize": 4,
    "solarize": 256,
}
"""What level 10 means: degrees, slopes, shares of the image, factors - 0.1, bits, thresholds."""


@dataclass(frozen=True)
class AugMix(Step):
    """AugMix of uint8 images; shifts are of whole pixels, angles of whole degrees."""

    shape: tuple[int, int, int]
    severity: float = 1.0

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        pool = torch.tensor([CODES[name] for name in POOL])
        size = count, WIDTH * DEPTH
        code = pool[torch.randint(len(pool), size, generator=generator)]
        level = uniform(generator, *size, low=LOWEST, high=self.severity) / 10
        sign = 2.0 * torch.randint(2, size, generator=generator) - 1.0
        depth = integers(generator, count * WIDTH, DEPTH).view(count, WIDTH, 1) + 1
        is_used = (torch.arange(DEPTH) < depth).view(size)
        value = operation_values(code, level, sign, self.shape)
        code = torch.where(is_used, code, 0)
        # Exponential variables divided by their sum are Dirichlet(1, ..., 1).
        weight = -uniform(generator, count, WIDTH, low=1e-7).log()
        return {
            "code": code,
            "value": value,
            "matrix": matrices(code, value, self.shape),
            "weight": weight / weight.sum(1, keepdim=True),
            "mix": uniform(generator, count),
        }

    def apply(self, images: Tensor, choices: dict[str, Tensor]) -> Tensor:
        mixed = torch.zeros_like(images, dtype=torch.float32)
        for chain in range(WIDTH):
            turns = slice(chain * DEPTH, (chain + 1) * DEPTH)
            parts = {key: choices[key][:, turns] for key in ("code", "value", "matrix")}
            weight = choices["weight"][:, chain].view(-1, 1, 1, 1).to(images.device)
            mixed += weight * operate(images, parts)
        share = choices["mix"].view(-1, 1, 1, 1).to(images.device)
        return ((1 - share) * images + share * mixed).round_().clamp_(0, 255).to(torch.uint8)


def operation_values(
    code: Tensor, level: Tensor, sign: Tensor, shape: tuple[int, int, int]
) -> Tensor:
    """The number that each operation takes at a level from 0 to 1; `sign` is -1 or 1."""
    _, height, width = shape
    scale = torch.ones(max(CODES.values()) + 1)
    for name, factor in SCALES.items():
        scale[CODES[name]] = factor
    value = scale[code] * level

    def put(name: str, found: Tensor) -> None:
        nonlocal value
        value = torch.where(code == CODES[name], found, value)

    put("rotate", sign * value.floor())
    for name in ("shear_x", "shear_y"):
        put(name, sign * value)
    for name, side in (("translate_x", width), ("translate_y", height)):
        put(name, sign * (value * side).floor() / side)
    for name in FACTORS:
        put(name, value + 0.1)
    put("posterize", 4 - value.floor())
    put("solarize", 256 - value.floor())
    return value
