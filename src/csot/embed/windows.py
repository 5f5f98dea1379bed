"""Random views of a picture that depend on nothing but its pixels and the number of the view."""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

LEAST_AREA = 0.5
"""Of a window, as a share of the picture."""
ASPECT = 4 / 3
"""Largest change of the ratio of width to height."""
VERSION = "window-1"
"""Changes when the views do."""


def window(image: Image, number: int) -> Image:
    """View `number` of a picture: 0 is the picture; the others are parts, the odd ones mirrored.

    The random numbers come from the pixels, so a picture has the same views wherever it lies.
    """
    from PIL.Image import Transpose

    if number == 0:
        return image
    rng = np.random.default_rng([zlib.crc32(image.tobytes()), number])
    area = rng.uniform(LEAST_AREA, 1.0) * image.width * image.height
    ratio = math.exp(rng.uniform(-1.0, 1.0) * math.log(ASPECT)) * image.width / image.height
    width = min(image.width, max(1, round(math.sqrt(area * ratio))))
    height = min(image.height, max(1, round(math.sqrt(area / ratio))))
    left = int(rng.integers(image.width - width + 1))
    top = int(rng.integers(image.height - height + 1))
    part = image.crop((left, top, left + width, top + height))
    return part.transpose(Transpose.FLIP_LEFT_RIGHT) if number % 2 else part
