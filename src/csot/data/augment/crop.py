"""A window at random, a mirror image, a hole: what moves whole pixels about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from csot.data.augment.view import Step, chance, integers, uniform

Padding: TypeAlias = Literal["zero", "reflect"]
FILL = 128
"""Grey: where a geometric change leaves an image without pixels, and in a hole."""


@dataclass(frozen=True)
class CropFlip(Step):
    """A window of `height` x `width` at random, from the image with `padding` around it.

    Half of the windows are mirrored if `flip`. Window and mirror are one gather.
    """

    shape: tuple[int, int, int]
    height: int
    width: int
    padding: int = 0
    flip: bool = False
    mode: Padding = "zero"

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        _, height, width = self.shape
        top = integers(generator, count, height + 2 * self.padding - self.height + 1)
        left = integers(generator, count, width + 2 * self.padding - self.width + 1)
        choices = {"top": top, "left": left}
        if self.flip:
            choices["flip"] = chance(generator, count, 0.5)
        return choices

    def apply(self, images: Tensor, choices: dict[str, Tensor]) -> Tensor:
        if self.padding:
            images = _padded(images, self.padding, self.mode)
        rows = choices["top"][:, None] + torch.arange(self.height)
        columns = torch.arange(self.width).expand(len(images), -1)
        if self.flip:
            columns = torch.where(choices["flip"][:, None], columns.flip(1), columns)
        columns = choices["left"][:, None] + columns
        index = rows[:, :, None] * images.shape[3] + columns[:, None, :]
        return take_pixels(images, index)


@dataclass(frozen=True)
class WindowFlip(Step):
    """As `CropFlip` without padding, from images of unequal sizes, each in a canvas with a mask."""

    channels: int
    height: int
    width: int
    flip: bool = False

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        choices = {"down": uniform(generator, count), "right": uniform(generator, count)}
        if self.flip:
            choices["flip"] = chance(generator, count, 0.5)
        return choices

    def apply(self, images: Tensor, choices: dict[str, Tensor]) -> Tensor:
        inside = extents(images, self.channels)
        top = (choices["down"] * (inside.height - self.height + 1)).long() + inside.top
        left = (choices["right"] * (inside.width - self.width + 1)).long() + inside.left
        size = images.shape[1:]
        window = CropFlip((size[0], size[1], size[2]), self.height, self.width, flip=self.flip)
        return window.apply(images[:, : self.channels], {**choices, "top": top, "left": left})


@dataclass(frozen=True)
class CentreCrop(Step):
    """The window in the middle, without a mask if there is one: no chance in it."""

    channels: int
    height: int
    width: int

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        return {}

    def apply(self, images: Tensor, choices: dict[str, Tensor]) -> Tensor:
        top = (images.shape[2] - self.height) // 2
        left = (images.shape[3] - self.width) // 2
        return images[:, : self.channels, top : top + self.height, left : left + self.width]


@dataclass(frozen=True)
class Cutout(Step):
    """A square hole of `size` pixels, centred anywhere in the image, in a share of the images."""

    shape: tuple[int, int, int]
    size: int
    probability: float = 1.0
    fill: int = FILL

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        _, height, width = self.shape
        return {
            "row": integers(generator, count, height),
            "column": integers(generator, count, width),
            "made": chance(generator, count, self.probability),
        }

    def apply(self, images: Tensor, choices: dict[str, Tensor]) -> Tensor:
        inside = []
        for centre, length in (
            (choices["row"], images.shape[2]),
            (choices["column"], images.shape[3]),
        ):
            start = (centre - self.size // 2)[:, None]
            position = torch.arange(length)
            inside.append((position >= start) & (position < start + self.size))
        hole = inside[0][:, None, :, None] & inside[1][:, None, None, :]
        hole &= choices["made"][:, None, None, None]
        return images.masked_fill(hole.to(images.device), self.fill)


@dataclass(frozen=True)
class Extents:
    """(B,) each, on the CPU: the rectangle of each canvas that belongs to the image."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor


def extents(images: Tensor, channels: int) -> Extents:
    """By the mask that follows the channels; without one, all of the canvas."""
    count, found, height, width = images.shape
    if found == channels:
        zero = torch.zeros(count, dtype=torch.long)
        return Extents(zero, zero, zero + height, zero + width)
    mask = images[:, channels] > 0
    rows, columns = mask.any(2).cpu().long(), mask.any(1).cpu().long()
    return Extents(rows.argmax(1), columns.argmax(1), rows.sum(1), columns.sum(1))


def take_pixels(images: Tensor, index: Tensor) -> Tensor:
    """Pixel index[b, i, j] of the flattened image b, in every channel: (B, ch, h, w)."""
    count, channels = images.shape[:2]
    flat = index.to(images.device).flatten(1).unsqueeze(1).expand(-1, channels, -1)
    return images.flatten(2).gather(2, flat).view(count, channels, *index.shape[1:])


def _padded(images: Tensor, padding: int, mode: Padding) -> Tensor:
    if mode == "zero":
        return pad(images, (padding,) * 4)
    # torch reflects no bytes.
    return pad(images.float(), (padding,) * 4, mode="reflect").to(images.dtype)
