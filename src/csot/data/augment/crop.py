"""Random crops, with or without scaling; mirroring; cutout."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from csot.data.augment.view_types import Step, chance, integers, uniform

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
    """`CropFlip` without padding, for images of unequal sizes, each on a canvas with a mask."""

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
    """The window in the middle, without a mask if there is one: nothing random."""

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
    """Read the mask that follows the channels; without one, the image fills the canvas."""
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
    # torch cannot reflect bytes.
    return pad(images.float(), (padding,) * 4, mode="reflect").to(images.dtype)


# A part of the image at random, scaled to a fixed size: `RandomResizedCrop`.
#
# The box is drawn as in torchvision: up to ten pairs of an area and an aspect ratio, the first that
# fits; else the largest box in the middle whose aspect ratio is allowed. Its pixels are scaled with
# Pillow's triangle filter, which widens where an image shrinks: per axis one matrix for each image,
# its weights in units of 2^-16. Products with bytes are then whole numbers below 2^24, exact in
# float32, so that no result depends on how many images are scaled together.

ATTEMPTS = 10
RATIOS = 3 / 4, 4 / 3
"""Width by height."""
FILTER_UNIT = 2**16
"""Fixed-point unit of the filter's weights."""


@dataclass(frozen=True)
class ResizedCrop(Step):
    """A box of a share `low` to 1 of the image's area, scaled to `height` x `width`.

    Half of the boxes are mirrored if `flip`. Images are (B, channels, H, W); a further channel, if
    there is one, is the mask of what belongs to the image (`csot.data.samples.ImageFiles`).
    """

    channels: int
    height: int
    width: int
    low: float = 0.08
    flip: bool = False

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        size = count, ATTEMPTS
        low, high = (math.log(ratio) for ratio in RATIOS)
        choices = {
            "area": uniform(generator, *size, low=self.low, high=1.0),
            "ratio": uniform(generator, *size, low=low, high=high).exp(),
            "down": uniform(generator, *size),
            "right": uniform(generator, *size),
        }
        if self.flip:
            choices["flip"] = chance(generator, count, 0.5)
        return choices

    def apply(self, images: Tensor, choices: dict[str, Tensor]) -> Tensor:
        inside = extents(images, self.channels)
        boxes = choose_boxes(inside, choices)
        columns = filter_matrix(boxes.left, boxes.width, images.shape[3], self.width)
        if self.flip:
            columns = torch.where(choices["flip"][:, None, None], columns.flip(1), columns)
        rows = filter_matrix(boxes.top, boxes.height, images.shape[2], self.height)
        pixels = images[:, : self.channels].float()
        # (B, channels, H, W) x (B, 1, W, width), then (B, 1, height, H) x (B, channels, H, width).
        wide = _bytes(pixels @ columns.to(images.device).mT[:, None])
        return _bytes(rows.to(images.device)[:, None] @ wide).to(torch.uint8)


def choose_boxes(inside: Extents, choices: dict[str, Tensor]) -> Extents:
    """The first attempt that fits into the image, else the fallback."""
    height, width = inside.height[:, None], inside.width[:, None]
    area = choices["area"].double() * height * width
    ratio = choices["ratio"].double()
    wide, high = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
    fits = (wide > 0) & (high > 0) & (wide <= width) & (high <= height)
    first = fits.int().argmax(1)[:, None]
    is_found = fits.any(1)

    def taken(values: Tensor) -> Tensor:
        return values.gather(1, first)[:, 0]

    other_height, other_width = _fallback(inside.height, inside.width)
    box_height = torch.where(is_found, taken(high), other_height).long()
    box_width = torch.where(is_found, taken(wide), other_width).long()
    room = inside.height - box_height, inside.width - box_width
    drawn = (taken(choices[name]).double() for name in ("down", "right"))
    top, left = ((share * (free + 1)).floor() for share, free in zip(drawn, room, strict=True))
    middle = [free.div(2, rounding_mode="floor") for free in room]
    return Extents(
        inside.top + torch.where(is_found, top, middle[0]).long(),
        inside.left + torch.where(is_found, left, middle[1]).long(),
        box_height,
        box_width,
    )


def filter_matrix(start: Tensor, length: Tensor, inputs: int, outputs: int) -> Tensor:
    """(B, outputs, inputs) weights, in units of 2^-16, that scale `length` pixels from `start` on.

    Pillow's bilinear filter: output o weighs pixel x of the box by 1 - |x + 1/2 - c| / s, if that
    is positive, with c = (o + 1/2) length / outputs and s = max(1, length / outputs); the weights
    of an output are divided by their sum.
    """
    scale = (length.double() / outputs)[:, None, None]
    centre = (torch.arange(outputs)[:, None] + 0.5) * scale
    position = torch.arange(inputs) - start[:, None, None].double()
    weight = 1 - (position + 0.5 - centre).abs() / scale.clamp(min=1)
    is_inside = (position >= 0) & (position < length[:, None, None])
    weight = torch.where(is_inside, weight.clamp(min=0), 0.0)
    weight = weight / weight.sum(-1, keepdim=True)
    return (FILTER_UNIT * weight).round().float()


def _fallback(height: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
    """The largest height and width whose ratio is allowed."""
    low, high = RATIOS
    ratio = width / height
    return (
        torch.where(ratio < low, (width / low).round(), height.double()),
        torch.where(ratio > high, (height * high).round(), width.double()),
    )


def _bytes(sums: Tensor) -> Tensor:
    """Weighted sums, in units of 2^-16, to whole levels, as float32."""
    return ((sums + FILTER_UNIT // 2) / FILTER_UNIT).floor_().clamp_(0, 255)
