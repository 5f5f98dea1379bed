"""Opening images: which files they are, whether they are whole, and their pixels as RGB."""

from __future__ import annotations

import stat
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from csot.data.errors import DataError, require
from csot.untrusted.errors import reason
from csot.untrusted.pictures import decoded, on_white, stretched

if TYPE_CHECKING:
    from PIL import Image as PillowImage

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff"})


def open_rgb(path: Path, side: int) -> PillowImage.Image:
    """The image upright, as RGB, at least `side` pixels wide and high if the file has them.

    Transparent pixels become white. Of an animation, the first frame.
    """
    operations = require("PIL.ImageOps", "images", "reading images")
    # JPEG decodes straight to a smaller size, many times faster.
    with decoded(path, 2 * side) as image, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd metadata
        upright: PillowImage.Image = operations.exif_transpose(image)
        return _as_rgb(upright)


def _as_rgb(image: PillowImage.Image) -> PillowImage.Image:
    if image.mode.startswith(("I", "F")):  # 16 or 32 bits per pixel: stretch, or it turns white
        return stretched(image).convert("RGB")
    if "A" in image.getbands() or "transparency" in image.info:
        return on_white(image)
    return image.convert("RGB")


def fault(path: Path) -> str | None:
    """Why the image cannot be read, or None. The whole file is decoded, so cut files are found."""
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            return "a folder, not an image"
        if not stat.S_ISREG(found.st_mode):
            return "not a file"
        if found.st_size == 0:
            return "empty file"
        open_rgb(path, side=32)
    except FileNotFoundError:
        return "no such file"
    except MemoryError:
        return "too large to decode"
    except ImportError:
        raise
    except Exception as error:
        # Decoders raise nearly anything on broken files. Pillow puts the full path in its messages.
        return f"unreadable: {reason(error, path)}"
    return None


def read_rgb(path: Path, side: int) -> PillowImage.Image:
    """`open_rgb`, with an error that names the file."""
    try:
        return open_rgb(path, side)
    except ImportError:
        raise
    except Exception as error:
        raise DataError(f"{path} cannot be read as an image: {reason(error, path)}") from error
