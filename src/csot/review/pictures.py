"""Pictures of the run's own rows, and no other file."""

from __future__ import annotations

import importlib.util
import io
import threading
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from csot.untrusted.pictures import Containment, PictureError, decoded, read_file, stretched

MAX_BYTES = 64 * 2**20
"""Larger files are not read."""
SENT_AS_IS = 12 * 2**20
"""Larger pictures are sent smaller, if Pillow is there."""
DECODERS = threading.BoundedSemaphore(2)
"""How many pictures are decoded at once: a page of sixty must not fill the memory."""
SMALL, LARGE = 320, 1600
"""Longest sides in pixels: of a card, and of the one picture that fills the page."""
SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)


@dataclass(frozen=True)
class Picture:
    content: bytes
    kind: str


def has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


def read_picture(allowed: Containment, name: str, small: bool) -> Picture:
    """What the browser gets: the file as it is, or made smaller."""
    path = allowed.find(name)
    content = read_file(path, MAX_BYTES)
    kind = kind_of_picture(content)
    as_is = kind is not None and len(content) <= (SENT_AS_IS if not small else 32 * 1024)
    if as_is and kind is not None:
        return Picture(content, kind)
    if has_pillow():
        return _resized(path, path.stat().st_mtime_ns, SMALL if small else LARGE)
    if kind is None:
        raise PictureError("browsers cannot show this file; pip install pillow to see it")
    return Picture(content, kind)


def kind_of_picture(content: bytes) -> str | None:
    """By its first bytes; names can lie, and a page of HTML must never be sent as one."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in SIGNATURES if content.startswith(start)), None)


@lru_cache(maxsize=512)
def _resized(path: Path, changed: int, edge: int) -> Picture:
    """A JPEG or PNG of at most ``edge`` pixels; ``changed`` only tells versions of a file apart."""
    from PIL import ImageOps

    try:
        with (
            DECODERS,
            # JPEG is decoded at a fraction of its size.
            decoded(read_file(path, MAX_BYTES), edge) as opened,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            image = ImageOps.exif_transpose(opened)
            if image.mode[0] in "IF":
                image = stretched(image)
            image.thumbnail((edge, edge))
            clear = image.mode in ("LA", "PA", "P", "RGBA")
            image = image.convert("RGBA" if clear else "RGB")
            buffer = io.BytesIO()
            image.save(buffer, "PNG" if clear else "JPEG", quality=85)
    except PictureError:
        raise
    except Exception:  # Pillow's decoders raise nearly anything on a broken file
        raise PictureError("the file is not a picture that can be read") from None
    return Picture(buffer.getvalue(), "image/png" if clear else "image/jpeg")
