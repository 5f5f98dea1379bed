"""Random colours: brightness, contrast, saturation and hue in random order, or none (grey)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from csot.data.augment.pixels import POINTWISE, grey_levels, shift_hue
from csot.data.augment.view import Step, chance, uniform

OPERATIONS = {
    "brightness": POINTWISE["brightness"],
    "contrast": POINTWISE["contrast"],
    "saturation": POINTWISE["color"],
    "hue": shift_hue,
}


@dataclass(frozen=True)
class Jitter(Step):
    """`ColorJitter` of torchvision, in a share of the images.

    Brightness, contrast and saturation are factors in 1 -+ `amount`, the hue is turned by up to
    `hue` of a full circle. Each image has its own order.
    """

    amount: float = 0.4
    hue: float = 0.1
    probability: float = 0.8

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        low, high = 1 - self.amount, 1 + self.amount
        value = uniform(generator, count, len(OPERATIONS), low=low, high=high)
        value[:, -1] = uniform(generator, count, low=-self.hue, high=self.hue)
        return {
            "order": uniform(generator, count, len(OPERATIONS)).argsort(1),
            "value": value,
            "made": chance(generator, count, self.probability),
        }

    def apply(self, images: Tensor, choices: dict[str, Tensor]) -> Tensor:
        images = images.clone()
        order = torch.where(choices["made"][:, None], choices["order"], -1)
        for turn in range(len(OPERATIONS)):
            for number, operation in enumerate(OPERATIONS.values()):
                rows = (order[:, turn] == number).nonzero()[:, 0]
                if len(rows):
                    value = choices["value"][rows, number].to(images.device)
                    rows = rows.to(images.device)
                    images[rows] = operation(images[rows], value)
        return images


@dataclass(frozen=True)
class Grey(Step):
    """A share of the images without colours."""

    probability: float = 0.2

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        return {"made": chance(generator, count, self.probability)}

    def apply(self, images: Tensor, choices: dict[str, Tensor]) -> Tensor:
        made = choices["made"].view(-1, 1, 1, 1).to(images.device)
        return torch.where(made, grey_levels(images).to(torch.uint8), images)
