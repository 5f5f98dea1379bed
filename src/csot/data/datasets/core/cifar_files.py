"""The files of CIFAR, in the binary and in the Python layout, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from csot._core.errors import DataError, listed, naming
from csot._core.files import read_text
from csot.data.datasets.core.restricted_pickle import read_pickle

NAMES_LIMIT = 1 << 20
"""Bytes of a list of class names; the official ones have a few hundred."""
PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Part:
    """The images and labels of one or more files."""

    images: npt.NDArray[np.uint8]
    """(n, 3, 32, 32)."""
    fine: npt.NDArray[np.int64]
    coarse: npt.NDArray[np.int64] | None


def read_binary(path: Path, records: int, classes: int, coarse: bool) -> Part:
    """Records of a label byte (of CIFAR-100: coarse, then fine) and 1024 bytes per channel."""
    _need(path)
    length = PIXELS + (2 if coarse else 1)
    size = path.stat().st_size
    if size != records * length:
        raise DataError(
            f"{path} has {size:,} bytes; {records * length:,} are needed ({records:,} images of "
            f"{length:,}): it is cut, or not a file of CIFAR. Get it again"
        )
    table = np.fromfile(path, dtype=np.uint8).reshape(records, length)
    fine = checked_labels(table[:, -PIXELS - 1], records, classes, path, "the label")
    broad = checked_labels(table[:, 0], records, 20, path, "the coarse label") if coarse else None
    return Part(table[:, -PIXELS:].reshape(-1, 3, 32, 32), fine, broad)


def read_python(path: Path, records: int, classes: int, coarse: bool) -> Part:
    """A pickled dict: `data` (n, 3072), and `labels`, or `fine_labels` and `coarse_labels`."""
    _need(path)
    held = read_pickle(path)
    wanted = ["data", "fine_labels", "coarse_labels"] if coarse else ["data", "labels"]
    pixels, fine, *broad = (_entry(held, key, path) for key in wanted)
    shape = getattr(pixels, "shape", None)
    if shape != (records, PIXELS) or pixels.dtype != np.uint8:
        found = shape if shape is None else f"{pixels.dtype} {shape}"
        raise DataError(
            f"{path}: 'data' is {found}; uint8 ({records}, {PIXELS}) is needed. Get the file again"
        )
    return Part(
        np.ascontiguousarray(pixels).reshape(-1, 3, 32, 32),
        checked_labels(fine, records, classes, path, repr(wanted[1])),
        checked_labels(broad[0], records, 20, path, "'coarse_labels'") if broad else None,
    )


def read_names(path: Path, key: str, classes: int) -> list[str]:
    """Class names: a text file, one per line; or entry `key` of a pickled dict."""
    _need(path)
    if path.suffix == ".txt":
        held = [line.strip() for line in read_text(path, NAMES_LIMIT).splitlines()]
        names = [name for name in held if name]
    else:
        entry = _entry(read_pickle(path), key, path)
        names = [str(name) for name in entry] if isinstance(entry, list) else []
    if len(names) != classes:
        raise DataError(f"{path} holds {len(names)} class names; {classes} are needed")
    return names


def joined(parts: list[Part]) -> Part:
    coarse = [part.coarse for part in parts if part.coarse is not None]
    return Part(
        np.concatenate([part.images for part in parts]),
        np.concatenate([part.fine for part in parts]),
        np.concatenate(coarse) if coarse else None,
    )


def _need(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{path} is missing: unpack the whole official archive")


def _entry(held: Any, key: str, path: Path) -> Any:
    """Keys are `str` or, where the file was written again, `bytes`."""
    if not isinstance(held, dict):
        raise DataError(f"{path} holds a {type(held).__name__}; a dict with {key!r} is needed")
    by_text = {k.decode("latin1") if isinstance(k, bytes) else str(k): v for k, v in held.items()}
    if key not in by_text:
        raise DataError(f"{path} has no entry {key!r}; it has {listed(by_text) or 'none'}")
    return by_text[key]


def checked_labels(
    values: Any, records: int, classes: int, path: Path, what: str
) -> npt.NDArray[np.int64]:
    """(records,) within the classes; an error names the first that is not."""
    # Texts of unlike lengths would make an array of the longest times their number.
    if not isinstance(values, np.ndarray) and not (
        isinstance(values, list) and all(type(value) is int for value in values)
    ):
        raise DataError(f"{path}: {what} is not a list of whole numbers")
    with naming(path, f"a file whose {what} are labels", kind=DataError):
        labels = np.asarray(values)
    if labels.shape != (records,) or labels.dtype.kind not in "iu":
        raise DataError(
            f"{path}: {what} is {labels.dtype} {labels.shape}; {records} whole numbers are needed"
        )
    wrong = (labels < 0) | (labels >= classes)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"{path}: {what} of image {row} (from 0) is {labels[row]}; there are {classes} "
            "classes. It is not a file of this data set, or it is damaged"
        )
    return labels.astype(np.int64)
