"""Policies of strong augmentation: AutoAugment, RandAugment and AugMix.

AugMix (Hendrycks et al. 2020) mixes the image with three chains of one to three operations each:

    (1 - m) image + m sum_i w_i chain_i(image),    w from Dirichlet(1, 1, 1), m from Beta(1, 1)

Operations and severity are those of RRL and NGC. By a slip their code makes one of the three chains
only; here are all three.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from csot.data.augment.pixels import POINTWISE, warp
from csot.data.augment.view_types import Step, integers, uniform

Entry: TypeAlias = tuple[str, float, int]
SubPolicies: TypeAlias = tuple[tuple[Entry, Entry], ...]

CIFAR10: SubPolicies = (
    (("invert", 0.1, 0), ("contrast", 0.2, 6)),
    (("rotate", 0.7, 2), ("translate_x", 0.3, 9)),
    (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)),
    (("shear_y", 0.5, 8), ("translate_y", 0.7, 9)),
    (("auto_contrast", 0.5, 0), ("equalize", 0.9, 0)),
    (("shear_y", 0.2, 7), ("posterize", 0.3, 7)),
    (("color", 0.4, 3), ("brightness", 0.6, 7)),
    (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
    (("equalize", 0.6, 0), ("equalize", 0.5, 0)),
    (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
    (("color", 0.7, 7), ("translate_x", 0.5, 8)),
    (("equalize", 0.3, 0), ("auto_contrast", 0.4, 0)),
    (("translate_y", 0.4, 3), ("sharpness", 0.2, 6)),
    (("brightness", 0.9, 6), ("color", 0.2, 8)),
    (("solarize", 0.5, 2), ("invert", 0.0, 0)),
    (("equalize", 0.2, 0), ("auto_contrast", 0.6, 0)),
    (("equalize", 0.2, 0), ("equalize", 0.6, 0)),
    (("color", 0.9, 9), ("equalize", 0.6, 0)),
    (("auto_contrast", 0.8, 0), ("solarize", 0.2, 8)),
    (("brightness", 0.1, 3), ("color", 0.7, 0)),
    (("solarize", 0.4, 5), ("auto_contrast", 0.9, 0)),
    (("translate_y", 0.9, 9), ("translate_y", 0.7, 9)),
    (("auto_contrast", 0.9, 0), ("solarize", 0.8, 3)),
    (("equalize", 0.8, 0), ("invert", 0.1, 0)),
    (("translate_y", 0.7, 9), ("auto_contrast", 0.9, 0)),
)

IMAGENET: SubPolicies = (
    (("posterize", 0.4, 8), ("rotate", 0.6, 9)),
    (("solarize", 0.6, 5), ("auto_contrast", 0.6, 0)),
    (("equalize", 0.8, 0), ("equalize", 0.6, 0)),
    (("posterize", 0.6, 7), ("posterize", 0.6, 6)),
    (("equalize", 0.4, 0), ("solarize", 0.2, 4)),
    (("equalize", 0.4, 0), ("rotate", 0.8, 8)),
    (("solarize", 0.6, 3), ("equalize", 0.6, 0)),
    (("posterize", 0.8, 5), ("equalize", 1.0, 0)),
    (("rotate", 0.2, 3), ("solarize", 0.6, 8)),
    (("equalize", 0.6, 0), ("posterize", 0.4, 6)),
    (("rotate", 0.8, 8), ("color", 0.4, 0)),
    (("rotate", 0.4, 9), ("equalize", 0.6, 0)),
    (("equalize", 0.0, 0), ("equalize", 0.8, 0)),
    (("invert", 0.6, 0), ("equalize", 1.0, 0)),
    (("color", 0.6, 4), ("contrast", 1.0, 8)),
    (("rotate", 0.8, 8), ("color", 1.0, 2)),
    (("color", 0.8, 8), ("solarize", 0.8, 7)),
    (("sharpness", 0.4, 7), ("invert", 0.6, 0)),
    (("shear_x", 0.6, 5), ("equalize", 1.0, 0)),
    (("color", 0.4, 0), ("equalize", 0.6, 0)),
    (("equalize", 0.4, 0), ("solarize", 0.2, 4)),
    (("solarize", 0.6, 5), ("auto_contrast", 0.6, 0)),
    (("invert", 0.6, 0), ("equalize", 1.0, 0)),
    (("color", 0.6, 4), ("contrast", 1.0, 8)),
    (("equalize", 0.8, 0), ("equalize", 0.6, 0)),
)

FIXMATCH = (
    "identity",
    "auto_contrast",
    "brightness",
    "color",
    "contrast",
    "equalize",
    "posterize",
    "rotate",
    "sharpness",
    "shear_x",
    "shear_y",
    "solarize",
    "translate_x",
    "translate_y",
)
"""The operations among which FixMatch (Sohn et al. 2020, appendix D) chooses."""


# AutoAugment and RandAugment: two operations for each image, other ones for each.
#
# A policy draws, for every image and both of its turns, an operation and one number: an angle, a
# factor, a threshold. Rotations, shears and shifts become a matrix at once. The images that
# drew the same operation then undergo it together.

TURNS = 2
LEVELS = 10
GEOMETRIC = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")
FACTORS = ("brightness", "color", "contrast", "sharpness")
OPERATIONS = ("identity", *GEOMETRIC, *POINTWISE)
CODES = {name: code for code, name in enumerate(OPERATIONS)}
Ladder = Callable[[float], float]
"""From a level, 0 to 1, to the number that an operation takes."""

AUTOAUGMENT: Mapping[str, Ladder] = {
    "rotate": lambda level: 30 * level,
    "shear_x": lambda level: 0.3 * level,
    "shear_y": lambda level: 0.3 * level,
    "translate_x": lambda level: 150 / 331 * level,
    "translate_y": lambda level: 150 / 331 * level,
    **dict.fromkeys(FACTORS, lambda level: 0.9 * level),
    "posterize": lambda level: round(8 - 4 * level),
    "solarize": lambda level: 256 * (1 - level),
}
"""Degrees, slopes, shares of the image, distances of a factor from 1, bits, thresholds."""

RANDAUGMENT: Mapping[str, Ladder] = {
    **AUTOAUGMENT,
    "translate_x": lambda level: 0.3 * level,
    "translate_y": lambda level: 0.3 * level,
    **dict.fromkeys(FACTORS, lambda level: 0.05 + 0.9 * level),
    "posterize": lambda level: 4 + int(4 * level),
    "solarize": lambda level: 256 - int(256 * level),
}
"""Ranges of FixMatch: factors are given directly, not as distances from 1."""


@dataclass(frozen=True)
class Policy(Step):
    """Two operations in turn, on uint8 images of one or three channels."""

    shape: tuple[int, int, int]

    @abstractmethod
    def choose(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Codes and numbers of the operations, (count, 2) each; code 0 is to do nothing."""

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        code, value = self.choose(count, generator)
        return {"code": code, "value": value, "matrix": matrices(code, value, self.shape)}

    def apply(self, images: Tensor, choices: dict[str, Tensor]) -> Tensor:
        return operate(images, choices)


@dataclass(frozen=True)
class AutoAugment(Policy):
    """A sub-policy at random; each of its two operations happens with its own probability."""

    table: SubPolicies

    def choose(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        code = torch.tensor([[CODES[name] for name, _, _ in pair] for pair in self.table])
        probability = torch.tensor([[chance for _, chance, _ in pair] for pair in self.table])
        level = torch.tensor([[level for _, _, level in pair] for pair in self.table])
        drawn = torch.randint(len(self.table), (count,), generator=generator)
        happens = torch.rand((count, TURNS), generator=generator) < probability[drawn]
        sign = _signs(count, generator)
        code = torch.where(happens, code[drawn], 0)
        value = ladder(AUTOAUGMENT, steps=LEVELS - 1)[code, level[drawn]]
        value = torch.where(_among(code, GEOMETRIC), sign * value, value)
        return code, torch.where(_among(code, FACTORS), 1 + sign * value, value)


@dataclass(frozen=True)
class RandAugment(Policy):
    """FixMatch's: any two operations at levels 1 to 9 of 10, each happening half of the time."""

    probability: float = 0.5

    def choose(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        pool = torch.tensor([CODES[name] for name in FIXMATCH])
        size = (count, TURNS)
        drawn = pool[torch.randint(len(pool), size, generator=generator)]
        level = torch.randint(1, LEVELS, size, generator=generator)
        happens = torch.rand(size, generator=generator) < self.probability
        sign = _signs(count, generator)
        code = torch.where(happens, drawn, 0)
        value = ladder(RANDAUGMENT, steps=LEVELS)[code, level]
        return code, torch.where(_among(code, GEOMETRIC), sign * value, value)


def operate(images: Tensor, choices: dict[str, Tensor]) -> Tensor:
    """The operations `code` (count, turns) in turn, with their `value` and `matrix`."""
    images = images.clone()
    for turn in range(choices["code"].shape[1]):
        code, value, matrix = (choices[key][:, turn] for key in ("code", "value", "matrix"))
        moved = (code >= 1) & (code <= len(GEOMETRIC))
        rows, theirs, matrix = _taken(images, moved, matrix)
        if len(rows):
            images[rows] = warp(theirs, matrix)
        for name, operation in POINTWISE.items():
            rows, theirs, values = _taken(images, code == CODES[name], value)
            if len(rows):
                images[rows] = operation(theirs, values)
    return images


def ladder(rules: Mapping[str, Ladder], steps: int) -> Tensor:
    """(operations, 10): the number of each operation at each level, with levels k / steps."""
    rows = [[rules.get(name, float)(k / steps) for k in range(LEVELS)] for name in OPERATIONS]
    return torch.tensor(rows)


def matrices(code: Tensor, value: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """(count, turns, 2, 3): where in the old image the new pixels come from, as `warp` reads it.

    Images are rotated about their centre, and sheared from their upper left corner as in Pillow.
    """
    _, height, width = shape
    matrix = torch.eye(2, 3).repeat(*code.shape, 1, 1)
    angle = torch.where(code == CODES["rotate"], value, 0.0).deg2rad()
    cos, sin = angle.cos(), angle.sin()
    matrix[..., 0, 0] = matrix[..., 1, 1] = cos
    matrix[..., 0, 1] = torch.where(code == CODES["shear_x"], value, -sin)
    matrix[..., 1, 0] = torch.where(code == CODES["shear_y"], value, sin)
    x, y = width / 2, height / 2
    matrix[..., 0, 2] = x - x * cos + y * sin
    matrix[..., 1, 2] = y - x * sin - y * cos
    matrix[..., 0, 2] += torch.where(code == CODES["translate_x"], value * width, 0.0)
    matrix[..., 1, 2] += torch.where(code == CODES["translate_y"], value * height, 0.0)
    return matrix


def _signs(count: int, generator: torch.Generator) -> Tensor:
    """(count, 2), -1 or 1."""
    return 2.0 * torch.randint(2, (count, TURNS), generator=generator) - 1.0


def _among(code: Tensor, names: tuple[str, ...]) -> Tensor:
    return torch.isin(code, torch.tensor([CODES[name] for name in names]))


def _taken(images: Tensor, chosen: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Which rows are chosen, these images, and their values, on the images' device.

    The choice stays on the CPU, so that a GPU need not wait to learn how many rows there are.
    """
    rows = chosen.nonzero().flatten()
    values = values[rows].to(images.device)
    rows = rows.to(images.device)
    return rows, images[rows], values


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
