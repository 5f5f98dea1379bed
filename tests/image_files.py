"""Real small files for the readers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def write_image(path: Path, value: int = 100, size: tuple[int, int] = (8, 8)) -> Path:
    """A plain RGB image; the ending names the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value, value // 2, 255 - value)).save(path)
    return path


def write_noise_image(path: Path, seed: int, size: int = 64) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path
