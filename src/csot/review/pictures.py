"""Pictures of the run's own rows, and no other file."""

from __future__ import annotations

import importlib.util
import io
import os
import stat
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_BYTES = 64 * 2**20
"""Larger files are not read."""
SENT_AS_IS = 12 * 2**20
"""Larger pictures are sent smaller, if Pillow is there."""
MAX_PIXELS = 80_000_000
"""Larger pictures are not decoded; Pillow itself warns from a little more on."""
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


class PictureError(Exception):
    """Why there is nothing to see."""


@dataclass(frozen=True)
class Picture:
    content: bytes
    kind: str


def has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


def find_picture(root: Path, name: str) -> Path:
    """The file, which must lie in ``root`` once every link and ``..`` is followed."""
    if not name or "\0" in name:
        raise PictureError("this row has no picture")
    try:
        base = root.resolve(strict=True)
        path = (base / name).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise PictureError("the file is not there any more") from None
    if not path.is_relative_to(base):
        raise PictureError("the file lies outside of the data folder, so it is not shown")
    return path


def read_picture(root: Path, name: str, small: bool) -> Picture:
    """What the browser gets: the file as it is, or made smaller."""
    path = find_picture(root, name)
    content = _read(path)
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


def _read(path: Path) -> bytes:
    """A regular file of a bearable size; the last step must not be a link."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except OSError:
        raise PictureError("the file cannot be read") from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise PictureError("this is no file")
        if found.st_size > MAX_BYTES:
            raise PictureError(f"the file is larger than {MAX_BYTES // 2**20} MB")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(MAX_BYTES)
    finally:
        os.close(handle)


def _to_grey(image: Image) -> Image:
    """More than eight bits a pixel, as in X-rays: darkest to black, brightest to white."""
    from PIL import Image as images

    values = np.nan_to_num(np.asarray(image, dtype=np.float32))
    low, high = float(values.min()), float(values.max())
    shades = (values - low) * (255 / max(high - low, 1e-12))
    return images.fromarray(shades.astype(np.uint8))


@lru_cache(maxsize=512)
def _resized(path: Path, changed: int, edge: int) -> Picture:
    """A JPEG or PNG of at most ``edge`` pixels; ``changed`` only tells versions of a file apart."""
    from PIL import Image as images
    from PIL import ImageOps

    try:
        with DECODERS, images.open(io.BytesIO(_read(path))) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise PictureError(
                    f"the picture has more than {MAX_PIXELS // 10**6} million pixels"
                )
            opened.draft("RGB", (edge, edge))  # JPEG: decode at a fraction of the size
            image = ImageOps.exif_transpose(opened)
            if image.mode[0] in "IF":
                image = _to_grey(image)
            image.thumbnail((edge, edge))
            clear = image.mode in ("LA", "PA", "P", "RGBA")
            image = image.convert("RGBA" if clear else "RGB")
            buffer = io.BytesIO()
            image.save(buffer, "PNG" if clear else "JPEG", quality=85)
    except PictureError:
        raise
    except Exception:  # Pillow's decoders raise nearly anything on a broken file
        raise PictureError("the file is no picture that can be read") from None
    return Picture(buffer.getvalue(), "image/png" if clear else "image/jpeg")
