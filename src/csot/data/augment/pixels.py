"""The operations of AutoAugment on bytes, with the meaning that Pillow gives them.

Every function maps images (n, ch, H, W), uint8, to the same; `value` (n,) is one number for each.
Sums are sums of integers, so that no result depends on how many images stand in a batch, or on the
order in which a device adds. kornia equalises; its other operations work on floating point, and
differ from Pillow by a level here and there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from csot._core.errors import require
from csot.data.augment.crop import FILL, take_pixels
from csot.data.augment.view_types import Step, chance, uniform

Operation = Callable[[Tensor, Tensor], Tensor]


def auto_contrast(images: Tensor, value: Tensor) -> Tensor:
    """Each channel stretched over 0 ... 255."""
    low = images.amin((2, 3), keepdim=True).int()
    high = images.amax((2, 3), keepdim=True).int()
    stretched = (images - low) * 255 // (high - low).clamp(min=1)
    return torch.where(high > low, stretched, images).to(torch.uint8)


def equalize(images: Tensor, value: Tensor) -> Tensor:
    """Each channel with a histogram as flat as can be."""
    enhance = require("kornia.enhance", "train", "AutoAugment")
    flat: Tensor = enhance.equalize(images.float() / 255)
    return (flat * 255).round_().to(torch.uint8)


def invert(images: Tensor, value: Tensor) -> Tensor:
    return 255 - images


def solarize(images: Tensor, value: Tensor) -> Tensor:
    """Pixels from the threshold `value` on are inverted."""
    return torch.where(images < _each(value), images, 255 - images)


def posterize(images: Tensor, value: Tensor) -> Tensor:
    """Keep the upper `value` bits."""
    step = 2 ** (8 - _each(value).int())
    return (images - images % step).to(torch.uint8)


def brightness(images: Tensor, value: Tensor) -> Tensor:
    return _blend(torch.zeros((), device=images.device), images, value)


def contrast(images: Tensor, value: Tensor) -> Tensor:
    """Away from the mean grey of the image, or towards it."""
    grey = grey_levels(images)
    count = grey[0].numel()
    mean = (2 * grey.sum((1, 2, 3), dtype=torch.int64) + count) // (2 * count)
    return _blend(_each(mean).float(), images, value)


def color(images: Tensor, value: Tensor) -> Tensor:
    """Away from the grey image, or towards it."""
    return _blend(grey_levels(images).float(), images, value)


def sharpness(images: Tensor, value: Tensor) -> Tensor:
    """Away from the smoothed image, or towards it. The outermost pixels stay."""
    if min(images.shape[2:]) < 3:
        return images
    pixels = images.float()
    inner = pixels[:, :, 1:-1, 1:-1]
    # The kernel has 5 in the middle and 1 around; whole numbers below 2^24 are exact.
    total = avg_pool2d(pixels, 3, stride=1, divisor_override=1) + 4 * inner
    smooth = pixels.clone()
    smooth[:, :, 1:-1, 1:-1] = ((2 * total + 13) / 26).floor_()
    return _blend(smooth, images, value)


POINTWISE: Mapping[str, Operation] = {
    "auto_contrast": auto_contrast,
    "equalize": equalize,
    "invert": invert,
    "solarize": solarize,
    "posterize": posterize,
    "brightness": brightness,
    "contrast": contrast,
    "color": color,
    "sharpness": sharpness,
}


def shift_hue(images: Tensor, value: Tensor) -> Tensor:
    """The hue turned by `value` of a full circle, in the 8 bits of Pillow's HSV.

    An image of one channel has no hue.
    """
    if images.shape[1] != 3:
        return images
    hue, saturation, brightest = _to_hsv(images)
    # As torchvision: bytes that wrap around.
    turned = (hue + (255 * _each(value)[:, 0]).trunc().int()) % 256
    return _from_hsv(turned, saturation, brightest)


def _to_hsv(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(n, H, W) each, int32. Pillow computes in float64 and keeps float32 in between."""
    wide = _widest(images)
    red, green, blue = images.int().unbind(1)
    high, low = images.amax(1).int(), images.amin(1).int()
    span = (high - low).float()
    r, g, b = (((high - part) / span.clamp(min=1)).to(wide) for part in (red, green, blue))
    angle = torch.where(red == high, b - g, torch.where(green == high, 2 + r - b, 4 + g - r))
    turn = ((angle.float().to(wide) / 6 + 1) % 1).float()
    saturation = (255 * (span / high.clamp(min=1)).to(wide)).int()
    is_grey = span == 0
    hue = (255 * turn.to(wide)).int().masked_fill(is_grey, 0)
    return hue, saturation.masked_fill(is_grey, 0), high


def _from_hsv(hue: Tensor, saturation: Tensor, brightest: Tensor) -> Tensor:
    wide = _widest(hue)
    sector = 6 * hue.to(wide) / 255
    whole = sector.floor()
    share = (sector - whole).float().to(wide)
    depth, v = (saturation.float() / 255).to(wide), brightest.to(wide)
    p, q, t = (
        (v * (1 - part)).add(0.5).floor() for part in (depth, depth * share, depth * (1 - share))
    )
    which = (whole.long() % 6).unsqueeze(1)
    channels = [
        torch.stack(parts, 1).gather(1, which)
        for parts in ((v, q, p, p, t, v), (t, v, v, q, p, p), (p, p, t, v, v, q))
    ]
    return torch.cat(channels, 1).to(torch.uint8)


def _widest(values: Tensor) -> torch.dtype:
    """float64; on Apple's GPUs, which have none, float32, which may differ by a level."""
    return torch.float32 if values.device.type == "mps" else torch.float64


def warp(images: Tensor, matrix: Tensor) -> Tensor:
    """New pixel (x, y) is the old one at `matrix` (n, 2, 3) times (x + 1/2, y + 1/2, 1), or grey.

    The nearest pixel is taken, by one gather for all images.
    """
    height, width = images.shape[2:]
    matrix = matrix[:, :, :, None, None]
    y = torch.arange(height, device=images.device)[:, None] + 0.5
    x = torch.arange(width, device=images.device)[None, :] + 0.5
    column, row = (
        (matrix[:, i, 0] * x + matrix[:, i, 1] * y + matrix[:, i, 2]).floor_() for i in (0, 1)
    )
    outside = (column < 0) | (column >= width) | (row < 0) | (row >= height)
    index = (row.clamp_(0, height - 1) * width + column.clamp_(0, width - 1)).long()
    return take_pixels(images, index).masked_fill(outside[:, None], FILL)


def _each(value: Tensor) -> Tensor:
    """(n,) -> (n, 1, 1, 1)."""
    return value.view(-1, 1, 1, 1)


def grey_levels(images: Tensor) -> Tensor:
    """(n, 1, H, W), int32: the luma that Pillow computes in fixed point."""
    if images.shape[1] == 1:
        return images.int()
    red, green, blue = images.int().unbind(1)
    return ((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16).unsqueeze(1)


def _blend(start: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    """start + factor (image - start): 0 gives `start`, 1 the image. Cut off to whole levels."""
    blended = start + _each(factor) * (images - start)
    return blended.clamp_(0, 255).to(torch.uint8)


# Random colours: brightness, contrast, saturation and hue in random order, or none (grey).

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
