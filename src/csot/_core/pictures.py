"""Pictures: which files may be opened, how large they may be, and how they are decoded."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import stat
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from csot._core.errors import DataError, reason, require

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_BYTES = 512 << 20
"""Larger files are not opened."""
MAX_PIXELS = 80_000_000
"""Larger pictures are not decoded. A JPEG counts as what it is decoded to, which may be an eighth
of its width and height."""
FORMATS = (
    *("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"),
    *("PPM", "TGA", "JPEG2000", "AVIF", "ICO", "PCX", "DIB", "SGI", "QOI"),
)
"""Not EPS and the like, for which Pillow starts other programs."""
MAX_SCANS = 100
"""Of a progressive JPEG, which decodes all of its pixels once for each; cameras and programs write
about ten."""
MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
"""Start of a JPEG segment, after the pixels of a scan."""
START_OF_SCAN = 0xDA
BAND = 256
"""Lines of a picture that are worked on at once."""
OUTSIDE = "it lies outside of the data folder"
ALLOW_OUTSIDE = "`allow_outside` reads it anyway"


class PictureError(Exception):
    """A picture cannot be shown; the message says why."""


class Containment:
    """The rule of containment for one data folder."""

    def __init__(self, root: Path, allow_outside: bool = False) -> None:
        self._root = root
        self._allow_outside = allow_outside
        self._base: Path | None = None
        self._folders: dict[str, bool] = {}

    def allows(self, path: Path) -> bool:
        """Whether the file may be opened. It need not exist, and nothing of it is read."""
        if self._allow_outside:
            return True
        folder, name = os.path.split(path)
        if name in ("", ".", "..") or "\0" in str(path):
            return False
        try:
            if folder not in self._folders:
                self._folders[folder] = self._is_inside(Path(folder))
            if self._folders[folder] and not os.path.islink(path):
                return True
            return self._is_inside(path)
        except (OSError, RuntimeError, ValueError):
            return False

    def allows_name(self, name: str) -> bool:
        """`allows` for a name that starts from the folder."""
        return self.allows(self._root / name)

    def find(self, name: str) -> Path:
        """The file of that name, which starts from the folder; else a `PictureError`."""
        if not name or "\0" in name:
            raise PictureError("this row has no picture")
        try:
            path = (self._root.resolve(strict=True) / name).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            raise PictureError("the file is not there any more") from None
        if not self.allows(path):
            raise PictureError(OUTSIDE)
        return path

    def _is_inside(self, path: Path) -> bool:
        if self._base is None:
            self._base = self._root.resolve()
        return path.resolve().is_relative_to(self._base)


def has_pillow() -> bool:
    """Whether Pillow is installed, without which images are shown as they are or not at all."""
    return importlib.util.find_spec("PIL") is not None


def read_file(path: Path, limit: int = MAX_BYTES) -> bytes:
    """A regular file within the size limit; the last step must not be a link."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except (OSError, ValueError):
        raise PictureError("the file cannot be read") from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise PictureError("this is not a file")
        if found.st_size > limit:
            raise PictureError(f"the file is larger than {limit >> 20} MB")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(handle)


@contextmanager
def decoded(source: Path | bytes, side: int) -> Iterator[Image]:
    """The first frame with its pixels loaded; a JPEG may come smaller, but not below `side`.

    Size and format are checked before any pixel is decoded.
    """
    from PIL import Image as images

    images.init()
    formats = [name for name in FORMATS if name in images.OPEN]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd metadata and large images: bounded below
        try:
            opened = images.open(
                io.BytesIO(source) if isinstance(source, bytes) else source, formats=formats
            )
        except images.DecompressionBombError as error:
            count = next(iter(re.findall(r"\d+", str(error))), "")
            size = f"{int(count):,}" if count else f"more than {2 * MAX_PIXELS:,}"
            raise PictureError(
                f"the picture has {size} pixels: more than {MAX_PIXELS // 10**6} million are not "
                "decoded; make it smaller"
            ) from None
        with opened as image:
            image.draft("RGB", (side, side))
            if image.width * image.height > MAX_PIXELS:
                raise PictureError(
                    f"the picture has {image.width} x {image.height} pixels: more than "
                    f"{MAX_PIXELS // 10**6} million are not decoded; make it smaller"
                )
            if image.info.get("progressive") and _has_many_scans(source):
                raise PictureError(f"a JPEG of more than {MAX_SCANS} scans is not decoded")
            image.load()
            yield image


def _has_many_scans(source: Path | bytes) -> bool:
    """Whether a JPEG has more than MAX_SCANS scans."""
    content = source if isinstance(source, bytes) else read_file(source.resolve())
    scans, at = 0, 2
    while (found := MARKER.search(content, at)) is not None and scans <= MAX_SCANS:
        scans += content[found.start() + 1] == START_OF_SCAN
        length = int.from_bytes(content[found.end() : found.end() + 2], "big")
        at = found.end() + max(length, 2)
    return scans > MAX_SCANS


def stretched(image: Image) -> Image:
    """More than eight bits per pixel, as in X-rays: darkest to black, brightest to white.

    Band by band, so that a large picture needs no second copy in float64.
    """
    from PIL import Image as images

    bands = _bands(image)
    values = (_finite(image.crop(box)) for box in bands)
    extremes = [(float(part.min()), float(part.max())) for part in values if part.size]
    low, high = min(least for least, _ in extremes), max(most for _, most in extremes)
    result = images.new("L", image.size)
    for box in bands:
        shades = (_finite(image.crop(box)) - low) / ((high - low) or 1.0) * 255
        result.paste(images.fromarray(shades.round().astype(np.uint8)), box)
    return result


def on_white(image: Image) -> Image:
    """Replace transparent pixels by white, band by band as in `stretched`."""
    from PIL import Image as images

    result = images.new("RGB", image.size, "white")
    for box in _bands(image):
        layer = image.crop(box).convert("RGBA")
        result.paste(layer, box, mask=layer.getchannel("A"))
    return result


def _bands(image: Image) -> list[tuple[int, int, int, int]]:
    """Boxes of at most BAND lines that make up the picture."""
    tops = range(0, image.height, BAND)
    return [(0, top, image.width, min(top + BAND, image.height)) for top in tops]


def _finite(part: Image) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = np.nan_to_num(np.asarray(part, dtype=np.float64))
    return found


SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff"})


def open_rgb(path: Path, side: int) -> Image:
    """The image upright, as RGB, at least `side` pixels wide and high if the file has them.

    Transparent pixels become white. Of an animation, the first frame.
    """
    operations = require("PIL.ImageOps", "images", "reading images")
    # JPEG decodes straight to a smaller size, many times faster.
    with decoded(path, 2 * side) as image, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd metadata
        operations.exif_transpose(image, in_place=True)
        return _as_rgb(image)


def _as_rgb(image: Image) -> Image:
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


def read_rgb(path: Path, side: int) -> Image:
    """`open_rgb`, with an error that names the file."""
    try:
        return open_rgb(path, side)
    except ImportError:
        raise
    except Exception as error:
        raise DataError(f"{path} cannot be read as an image: {reason(error, path)}") from error


# Pictures in memory as files, for what reads files only.

PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")


def picture_files(samples: Sequence[Any], stack: ExitStack, name: str = "inputs") -> list[Path]:
    """Paths of pictures; those in memory are written to a folder that the stack removes.

    A sample is a path, a PIL image or a uint8 array (H, W, 3) or (H, W). `name` is what the
    samples are called in an error.
    """
    images = require("PIL.Image", "images", "reading images")
    folder: Path | None = None
    paths = []
    for row, given in enumerate(samples):
        sample = given
        if isinstance(sample, np.ndarray):
            sample = images.fromarray(channels_last(sample[None], f"{name}[{row}]")[0])
        if isinstance(sample, images.Image):
            if folder is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="csot-")))
            paths.append(folder / f"{row}.png")
            plain = sample if sample.mode in PNG_MODES else sample.convert("RGB")
            plain.save(paths[-1], compress_level=1)
        elif isinstance(sample, str | Path):
            paths.append(Path(sample))
            problem = fault(paths[-1])
            if problem is not None:
                raise DataError(f"{name}[{row}], {sample}: {problem}")
        else:
            raise ValueError(
                f"{name}[{row}] must be a path, a PIL image or an array, got "
                f"{type(sample).__name__}"
            )
    return paths


def channels_last(array: npt.NDArray[Any], name: str = "inputs") -> npt.NDArray[np.uint8]:
    """uint8 images (N, H, W, 3) or (N, H, W), whichever order they came in."""
    if array.dtype != np.uint8 or array.ndim not in (3, 4):
        raise ValueError(
            f"{name} has shape {array.shape} and type {array.dtype}; uint8 images of shape "
            "(N, H, W, 3) or (N, 3, H, W) are needed"
        )
    if array.ndim == 4 and array.shape[-1] not in (1, 3) and array.shape[1] in (1, 3):
        array = array.transpose(0, 2, 3, 1)
    return array[..., 0] if array.ndim == 4 and array.shape[-1] == 1 else array
