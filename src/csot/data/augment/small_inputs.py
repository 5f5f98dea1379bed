"""Views of small inputs: 8 x 8 digits, and embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from csot.data.augment.view_types import Draws, Step, View, check_rows, integers, uniform

# The strong view of small grey images, such as 8x8 digits.
#
# A policy for photographs would destroy them: this one turns, slants and scales a little by one
# bilinear warp, changes the contrast, cuts a small hole and adds noise. Dark is the background.


@dataclass(frozen=True)
class SmallWarp(Step):
    """Rotation, shear and scale about the middle, each drawn from a symmetric range."""

    degrees: float = 20.0
    shear: float = 0.1
    scale: float = 0.1

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        """(count, 2, 2) of the map from the new image to the old.

        Sines are taken here, for the whole batch: their last bit may depend on a batch's size.
        """
        angle = uniform(generator, count, low=-1, high=1) * math.radians(self.degrees)
        shear = uniform(generator, count, low=-self.shear, high=self.shear)
        size = 1 + uniform(generator, count, 2, low=-self.scale, high=self.scale)
        cos, sin = angle.cos(), angle.sin()
        matrix = torch.stack([cos, shear * cos - sin, sin, shear * sin + cos], 1).view(-1, 2, 2)
        return {"matrix": matrix / size[:, None, :]}

    def apply(self, images: Tensor, choices: dict[str, Tensor]) -> Tensor:
        matrix = choices["matrix"].to(images.device)[:, :, :, None, None]
        height, width = images.shape[2:]
        y = _centres(height, images.device)[:, None]
        x = _centres(width, images.device)[None, :]
        # Rounded after every product: a matrix product may add up in another order for a shard.
        grid = torch.stack([matrix[:, i, 0] * x + matrix[:, i, 1] * y for i in (0, 1)], -1)
        warped = grid_sample(images.float(), grid, mode="bilinear", align_corners=False)
        return warped.round_().to(images.dtype)


@dataclass(frozen=True)
class ContrastNoise(Step):
    """x -> factor x + noise, in grey levels, cut to 0 ... 255."""

    shape: tuple[int, int, int]
    contrast: float = 0.3
    noise: float = 10.0

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        return {
            "factor": 1 + uniform(generator, count, low=-self.contrast, high=self.contrast),
            "noise": torch.randn((count, *self.shape), generator=generator) * self.noise,
        }

    def apply(self, images: Tensor, choices: dict[str, Tensor]) -> Tensor:
        factor = choices["factor"].to(images.device).view(-1, 1, 1, 1)
        noisy = images.float() * factor + choices["noise"].to(images.device)
        return noisy.round_().clamp_(0, 255).to(images.dtype)


def _centres(size: int, device: torch.device) -> Tensor:
    """Where the pixels lie between -1 and 1, as grid_sample counts."""
    return (2 * torch.arange(size, device=device) + 1) / size - 1


# Views of embeddings: noise in proportion to each feature's spread, and features left out.


@dataclass(frozen=True)
class FeatureView(View):
    """x -> x + noise * scale * N(0, 1), each feature set to its `centre` at the rate `dropout`.

    What is kept is not enlarged: the spread of a feature stays what it is in the plain view. Of
    inputs with stored views (B, views, D) it takes one of the first `stored` at random.
    """

    scale: Tensor
    centre: Tensor
    noise: float = 0.0
    dropout: float = 0.0
    stored: int = 1

    def draw(self, count: int, generator: torch.Generator) -> Draws:
        values = {}
        size = (count, len(self.scale))
        if self.stored > 1:
            values["stored"] = integers(generator, count, self.stored)
        if self.noise:
            values["noise"] = torch.randn(size, generator=generator) * (self.noise * self.scale)
        if self.dropout:
            values["dropped"] = torch.rand(size, generator=generator) < self.dropout
        return Draws(values, count)

    def __call__(self, inputs: Tensor, draws: Draws) -> Tensor:
        check_rows(inputs, draws)
        if inputs.ndim == 3:
            chosen = draws.values.get("stored", torch.zeros(len(inputs), dtype=torch.int64))
            rows = torch.arange(len(inputs), device=inputs.device)
            inputs = inputs[rows, chosen.to(inputs.device)]
        outputs = inputs.float()
        if self.noise:
            outputs = outputs + draws.values["noise"].to(inputs.device)
        if self.dropout:
            dropped = draws.values["dropped"].to(inputs.device)
            outputs = torch.where(dropped, self.centre.to(inputs.device), outputs)
        return outputs
