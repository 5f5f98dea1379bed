"""Pictures in memory as files, for what reads files only."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from csot._core.errors import DataError, require
from csot._core.pictures import fault

PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")


def picture_files(samples: Sequence[Any], stack: ExitStack, name: str = "inputs") -> list[Path]:
    """Paths of pictures; those in memory are written to a folder that the stack removes.

    A sample is a path, a PIL image or a uint8 array (H, W, 3) or (H, W). ``name`` is what the
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
