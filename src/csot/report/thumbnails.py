"""Images as small data URLs, as far as a budget of bytes goes."""

from __future__ import annotations

import base64
import importlib.util
import io
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

EDGE = 96
"""Longest side in pixels: shown at 56 to 72, so still sharp on a dense screen."""
TINY = 48
"""Images up to this side stay as they are, without loss."""


def has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


def thumbnails(paths: Iterable[Path | None], budget: int) -> list[str]:
    """A data URL for each path; empty where it cannot be read or the budget is spent."""
    found: list[str] = []
    available = has_pillow()
    for path in paths:
        url = thumbnail(path) if available and path is not None and budget > 0 else ""
        budget -= len(url)
        found.append(url if budget >= 0 else "")
    return found


def thumbnail(path: Path) -> str:
    """One image, or the empty string: a report must not fail over a broken file."""
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as opened:
                opened.draft("RGB", (EDGE, EDGE))  # JPEG: decode at a fraction of the size
                image = ImageOps.exif_transpose(opened)
                tiny = max(image.size) <= TINY
                if image.mode[0] in "IF":  # 16 bits and more
                    image = Image.fromarray(_to_bytes(np.asarray(image, dtype=float)))
                image.thumbnail((EDGE, EDGE))
                image = image.convert("RGBA" if image.mode in ("LA", "PA", "P", "RGBA") else "RGB")
                if image.mode == "RGBA":
                    white = Image.new("RGBA", image.size, "white")
                    image = Image.alpha_composite(white, image).convert("RGB")
                buffer = io.BytesIO()
                if tiny:
                    image.save(buffer, "PNG", optimize=True)
                else:
                    image.save(buffer, "JPEG", quality=70, optimize=True)
    except Exception:  # Pillow's decoders raise nearly anything on a broken file
        return ""
    kind = "png" if tiny else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def _to_bytes(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """The darkest value black, the brightest white."""
    low, high = float(values.min()), float(values.max())
    scaled: npt.NDArray[np.float64] = (values - low) / max(high - low, 1e-12) * 255
    return scaled.round().astype(np.uint8)
