"""Images as small data URLs, as far as a budget of bytes goes."""

from __future__ import annotations

import base64
import importlib.util
import io
import warnings
from collections.abc import Iterable
from pathlib import Path

from csot._core.pictures import (
    OUTSIDE,
    Containment,
    PictureError,
    decoded,
    on_white,
    read_file,
    stretched,
)

EDGE = 96
"""Longest side in pixels: shown at 56 to 72, so still sharp on a dense screen."""
TINY = 48
"""Images up to this side stay as they are, without loss."""
CLEAR = ("LA", "PA", "P", "RGBA")
"""Modes of pixels that may be transparent."""


def has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


def thumbnails(names: Iterable[str], allowed: Containment, budget: int) -> list[str]:
    """A data URL for each picture; empty where it may not or cannot be read, or the budget is
    spent. Pictures outside of the data folder are counted in a warning."""
    found: list[str] = []
    available = has_pillow()
    outside = 0
    for name in names:
        path = None
        if available and name and budget > 0:
            try:
                path = allowed.find(name)
            except PictureError as error:
                outside += str(error) == OUTSIDE
        url = thumbnail(path) if path is not None else ""
        budget -= len(url)
        found.append(url if budget >= 0 else "")
    if outside:
        warnings.warn(
            f"{outside:,} pictures lie outside of the data folder and are not in the report; "
            "--allow-outside puts them in",
            UserWarning,
            stacklevel=2,
        )
    return found


def thumbnail(path: Path) -> str:
    """One image, or the empty string: a report must not fail over a broken file."""
    from PIL import ImageOps

    try:
        with (
            # JPEG is decoded at a fraction of its size.
            decoded(read_file(path), EDGE) as opened,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            image = ImageOps.exif_transpose(opened)
            tiny = max(image.size) <= TINY
            if image.mode[0] in "IF":  # 16 bits and more
                image = stretched(image)
            image.thumbnail((EDGE, EDGE))
            image = on_white(image) if image.mode in CLEAR else image.convert("RGB")
            buffer = io.BytesIO()
            if tiny:
                image.save(buffer, "PNG", optimize=True)
            else:
                image.save(buffer, "JPEG", quality=70, optimize=True)
    except Exception:  # Pillow's decoders raise nearly anything on a broken file
        return ""
    kind = "png" if tiny else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
