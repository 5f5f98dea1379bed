"""Inputs by row number: tensors in memory, or image files that are decoded on access."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from csot._core.errors import DataError, FileError, require
from csot._core.files import atomic_path, read_bytes, read_npy
from csot._core.pictures import MAX_BYTES, read_rgb

if TYPE_CHECKING:
    from PIL.Image import Image

Kind = Literal["images", "features"]
Pixels: TypeAlias = npt.NDArray[np.uint8]
LONGEST = 2
"""Sides of the canvas of a whole image, in units of its shorter side."""
SCALED = "images"
"""Folder of a cache for scaled images."""


class Samples(ABC):
    """N inputs, fetched by row numbers."""

    kind: Kind
    shape: tuple[int, ...]
    """Shape of one input: (channels, H, W) or (D,)."""
    whole = False
    """Whether batches are canvases of whole images, see `ImageFiles`."""
    stored_views: int = 1
    """Views of each input that are stored, the plain one first."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, rows: Tensor) -> Tensor:
        """int64 rows (B,) -> uint8 (B, channels, H, W) or float32 (B, D), on the CPU.

        With several stored views, float32 (B, views, D).
        """

    def subset(self, rows: Tensor | Sequence[int]) -> Samples:
        """A view on some of the rows, in that order. Nothing is copied."""
        chosen = torch.as_tensor(rows, dtype=torch.int64)
        if chosen.numel() and not 0 <= int(chosen.min()) <= int(chosen.max()) < len(self):
            raise IndexError(f"rows {chosen.min()} to {chosen.max()} of {len(self)} samples")
        return _Subset(self, chosen)


class InMemory(Samples):
    """uint8 images (N, channels, H, W), or features (N, D), which are kept as float32."""

    def __init__(self, tensor: Tensor) -> None:
        if tensor.ndim == 4 and tensor.dtype == torch.uint8:
            self.kind = "images"
        elif tensor.ndim == 2:
            self.kind = "features"
            tensor = tensor.to(torch.float32)
        else:
            raise DataError(
                f"samples of shape {tuple(tensor.shape)} and type {tensor.dtype}: either uint8 "
                "(N, channels, H, W) or numbers (N, D) are needed"
            )
        self._tensor = tensor.cpu()
        self.shape = tuple(tensor.shape[1:])

    def __len__(self) -> int:
        return len(self._tensor)

    def batch(self, rows: Tensor) -> Tensor:
        return self._tensor[rows]


class StoredViews(Samples):
    """Features of several views of each input, (views, N, D); the first view is the plain one."""

    kind = "features"

    def __init__(self, views: Sequence[Tensor]) -> None:
        shapes = {tuple(view.shape) for view in views}
        if len(shapes) != 1 or any(view.ndim != 2 for view in views):
            raise DataError(f"views of the shapes {sorted(shapes)}: all must be the same (N, D)")
        self._views = list(views)
        self.shape = tuple(views[0].shape[1:])
        self.stored_views = len(views)

    def __len__(self) -> int:
        return len(self._views[0])

    def batch(self, rows: Tensor) -> Tensor:
        return torch.stack([view[rows].float() for view in self._views], 1)


class ImageFiles(Samples):
    """Image files as (3, size, size): upright, shorter side scaled to `size`, centre cut out.

    With `whole` a batch holds all of each scaled image, up to `LONGEST` times its shorter side, in
    a canvas (4, LONGEST size, LONGEST size) whose last channel is 255 where the image is. The
    square that would be cut out lies in the middle; `shape` is its shape.
    With `cache`, a folder, the scaled squares are kept there by the content of the files.
    """

    kind = "images"

    def __init__(
        self, paths: Sequence[Path], size: int, cache: Path | None = None, *, whole: bool = False
    ) -> None:
        if size < 1:
            raise DataError(f"an image size of {size}: at least 1 pixel is needed")
        require("PIL.Image", "train", "reading images")
        self._paths = list(paths)
        self._cache = cache
        self.shape = (3, size, size)
        self.whole = whole

    def __len__(self) -> int:
        return len(self._paths)

    def batch(self, rows: Tensor) -> Tensor:
        paths = [self._paths[row] for row in rows.tolist()]
        size = self.shape[-1]
        shape = (4, LONGEST * size, LONGEST * size) if self.whole else self.shape
        pixels = torch.empty(len(paths), *shape, dtype=torch.uint8)
        # Decoding releases Python's lock, so threads are enough.
        pool = _pool(os.getpid())
        if self.whole:
            images = pool.map(read_canvas, paths, repeat(size))
        else:
            images = pool.map(read_scaled, paths, repeat(size), repeat(self._cache))
        for row, image in enumerate(images):
            pixels[row] = torch.from_numpy(image).permute(2, 0, 1)
        return pixels


class _Subset(Samples):
    def __init__(self, whole: Samples, rows: Tensor) -> None:
        self._whole = whole
        self._rows = rows
        self.kind = whole.kind
        self.shape = whole.shape
        self.whole = whole.whole
        self.stored_views = whole.stored_views

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, rows: Tensor) -> Tensor:
        return self._whole.batch(self._rows[rows])


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One for each process: threads do not survive a fork, and `Samples` stay picklable."""
    return ThreadPoolExecutor(min(16, os.cpu_count() or 1), f"images-{process}")


def read_scaled(path: Path, size: int, cache: Path | None) -> Pixels:
    """`read_square`, or the copy that was kept of it."""
    if cache is None:
        return read_square(path, size)
    digest = hashlib.sha256(read_bytes(path, MAX_BYTES)).hexdigest()
    kept = cache / SCALED / digest[:2] / f"{digest}-{size}.npy"
    if kept.exists():
        with suppress(FileError):  # cut off, or of another program: made again
            pixels = read_npy(kept)
            if pixels.shape == (size, size, 3) and pixels.dtype == np.uint8:
                return pixels
    pixels = read_square(path, size)
    with atomic_path(kept) as part, open(part, "wb") as file:
        np.save(file, pixels)
    return pixels


def read_square(path: Path, size: int) -> Pixels:
    """(size, size, 3)."""
    image = _scaled(path, size)
    left, top = ((side - size) // 2 for side in image.size)
    return np.array(image.crop((left, top, left + size, top + size)), dtype=np.uint8)


def read_canvas(path: Path, size: int) -> Pixels:
    """(LONGEST size, LONGEST size, 4): the image so that its middle square is in the middle."""
    image = _scaled(path, size)
    side = LONGEST * size
    corner = [(side - size) // 2 - (length - size) // 2 for length in image.size]
    # Of a longer image the ends are left out.
    box = [max(0, -corner[0]), max(0, -corner[1])]
    box += [min(length, side - place) for length, place in zip(image.size, corner, strict=True)]
    inside = np.array(image.crop((box[0], box[1], box[2], box[3])), dtype=np.uint8)
    canvas = np.zeros((side, side, 4), dtype=np.uint8)
    left, top = max(0, corner[0]), max(0, corner[1])
    window = canvas[top : top + inside.shape[0], left : left + inside.shape[1]]
    window[..., :3], window[..., 3] = inside, 255
    return canvas


def _scaled(path: Path, size: int) -> Image:
    """The image with its shorter side scaled to `size`."""
    resampling = require("PIL.Image", "train", "reading images").Resampling.BILINEAR
    image = read_rgb(path, size)
    shorter = min(image.size)
    width, height = (max(size, round(side * size / shorter)) for side in image.size)
    if (width, height) == image.size:
        return image
    return image.resize((width, height), resampling, reducing_gap=3.0)
