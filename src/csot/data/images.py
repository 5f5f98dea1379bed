"""Opening images: which files they are, whether they are whole, and their pixels as RGB."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from csot.data.errors import require

if TYPE_CHECKING:
    from PIL import Image as PillowImage

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff"})


def open_rgb(path: Path, side: int) -> PillowImage.Image:
    """The image upright, as RGB, at least `side` pixels wide and high if the file has them.

    Transparent pixels become white. Of an animation, the first frame.
    """
    image_module = require("PIL.Image", "images", "reading images")
    operations = require("PIL.ImageOps", "images", "reading images")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd metadata and large images: not our concern
        with image_module.open(path) as image:
            # JPEG decodes straight to a smaller size, many times faster.
            image.draft("RGB", (2 * side, 2 * side))
            image.load()
            upright: PillowImage.Image = operations.exif_transpose(image)
            return _as_rgb(upright)


def _as_rgb(image: PillowImage.Image) -> PillowImage.Image:
    image_module = require("PIL.Image", "images", "reading images")
    if image.mode.startswith(("I", "F")):  # 16 or 32 bits a pixel: stretch, or it turns white
        pixels = np.asarray(image, dtype=np.float64)
        low, high = float(np.nanmin(pixels)), float(np.nanmax(pixels))
        scaled = np.nan_to_num((pixels - low) / ((high - low) or 1.0)) * 255
        grey: PillowImage.Image = image_module.fromarray(scaled.round().astype(np.uint8))
        return grey.convert("RGB")
    if "A" in image.getbands() or "transparency" in image.info:
        layer = image.convert("RGBA")
        white: PillowImage.Image = image_module.new("RGBA", layer.size, "white")
        white.alpha_composite(layer)
        return white.convert("RGB")
    return image.convert("RGB")


def fault(path: Path) -> str | None:
    """Why the image cannot be read, or None. The whole file is decoded, so cut files are found."""
    try:
        if path.stat().st_size == 0:
            return "empty file"
        open_rgb(path, side=32)
    except FileNotFoundError:
        return "no such file"
    except IsADirectoryError:
        return "a folder, not an image"
    except MemoryError:
        return "too large to decode"
    except ImportError:
        raise
    except Exception as error:
        # Decoders raise nearly anything on broken files. Pillow puts the full path in its messages.
        text = str(error).replace(str(path), path.name).strip() or type(error).__name__
        return f"unreadable: {text}"
    return None
