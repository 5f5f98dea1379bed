"""Pictures as data URLs: large ones for the first rows, and one for every row within a budget."""

from __future__ import annotations

import base64
import importlib.util
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from csot._core.pictures import (
    OUTSIDE,
    Containment,
    PictureError,
    decoded,
    on_white,
    read_file,
    stretched,
)

if TYPE_CHECKING:
    from PIL.Image import Image

SIZES = ((288, 72), (192, 68), (128, 64), (96, 60), (64, 50), (40, 40))
"""Longest side in pixels and quality, from the best to the smallest."""
LEAST = 2600
"""Bytes kept back for each row still to come: enough for 96 pixels of most photographs."""
DENSITY = 0.1
"""Bytes per pixel of an easy picture: sizes that would not fit even then are not tried."""
TINY = 48
"""Pictures up to this side are kept without loss if they fit."""
TRANSPARENT = ("LA", "PA", "P", "RGBA")
"""Modes of pixels that may be transparent."""


@dataclass(frozen=True)
class Thumbnails:
    """A data URL per row, empty where there is none, and why some are missing."""

    urls: list[str]
    unreadable: int
    """Missing, broken, or outside of the data folder."""
    left_out: int
    """Readable, but even the smallest size does not fit the budget."""


def has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


def thumbnails(names: Sequence[str], allowed: Containment, budget: int) -> Thumbnails:
    """One picture per name in at most ``budget`` bytes; the first rows get the largest.

    Pictures outside of the data folder are counted in a warning.
    """
    if not has_pillow():
        return Thumbnails([""] * len(names), 0, 0)
    urls: list[str] = []
    unreadable = left_out = outside = 0
    for place, name in enumerate(names):
        to_come = len(names) - place - 1
        room = max(budget - LEAST * to_come, budget // (to_come + 1))
        url: str | None = None
        try:
            url = thumbnail(allowed.find(name), room) if name else None
        except PictureError as error:
            outside += str(error) == OUTSIDE
        unreadable += bool(name) and url is None
        left_out += url == ""
        budget -= len(url or "")
        urls.append(url or "")
    if outside:
        warnings.warn(
            f"{outside:,} pictures lie outside of the data folder and are not in the report; "
            "`allow_outside` puts them in",
            UserWarning,
            stacklevel=2,
        )
    return Thumbnails(urls, unreadable, left_out)


def thumbnail(path: Path, room: int) -> str | None:
    """The largest size of at most ``room`` bytes, or the empty string if none is.

    None if the file cannot be read: a report must not fail over a broken file.
    """
    from PIL import ImageOps

    try:
        with (
            # JPEG is decoded at a fraction of its size.
            decoded(read_file(path), SIZES[0][0]) as opened,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            image = ImageOps.exif_transpose(opened)
            if image.mode[0] in "IF":  # 16 bits and more
                image = stretched(image)
            image = on_white(image) if image.mode in TRANSPARENT else image.convert("RGB")
            return _fitting(image, room)
    except Exception:  # Pillow's decoders raise nearly anything on a broken file
        return None


def _fitting(image: Image, room: int) -> str:
    if max(image.size) <= TINY:
        url = _data_url(image, "PNG", optimize=True)
        if len(url) <= room:
            return url
    for side, quality in SIZES:
        shown = min(side, max(image.size))
        if side != SIZES[-1][0] and shown**2 * DENSITY > room:
            continue
        image.thumbnail((side, side))
        url = _data_url(image, "JPEG", quality=quality, optimize=True)
        if len(url) <= room:
            return url
    return ""


def _data_url(image: Image, form: str, **options: int) -> str:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    text = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f"data:image/{form.lower()};base64,{text}"
