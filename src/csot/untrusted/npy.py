"""Arrays of .npy files and of .npz members, without pickles and without believing the header."""

from __future__ import annotations

import math
import sys
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from csot.untrusted.errors import naming
from csot.untrusted.files import check_file

WHAT = "a readable .npy array"
OBJECTS = "Python objects"
KINDS = "biufcSUmM"
"""Of numbers, texts and times."""


def read_npy(path: Path, mapped: bool = False) -> npt.NDArray[Any]:
    """The array, or a read-only memory map of it."""
    size = check_file(path)
    with naming(path, WHAT):
        with open(path, "rb") as file:
            _check_header(file, size)
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        _check_text(array)
        return array if mapped else np.array(array)


def read_member(archive: zipfile.ZipFile, name: str, path: Path) -> npt.NDArray[Any]:
    """The array ``name`` of an .npz file that `open_zip` opened."""
    info = archive.getinfo(f"{name}.npy")
    with naming(f"{path}: {name}", WHAT):
        with archive.open(info) as file:
            _check_header(file, info.file_size)
        with archive.open(info) as file:
            array: npt.NDArray[Any] = npy_format.read_array(file, allow_pickle=False)
        _check_text(array)
        return array


def is_of_objects(error: BaseException) -> bool:
    """Whether an array was refused because it holds Python objects."""
    return OBJECTS in str(error)


def _check_header(file: IO[bytes], size: int) -> None:
    """NumPy reserves what the header says; sizes of zero and below end the interpreter."""
    version = npy_format.read_magic(file)
    if version not in ((1, 0), (2, 0)):  # the third is for the names of records
        raise ValueError(f"version {version[0]}.{version[1]} of the format")
    is_first = version == (1, 0)
    read = npy_format.read_array_header_1_0 if is_first else npy_format.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(f"it holds {OBJECTS}")
    if dtype.kind not in KINDS or dtype.itemsize < 1:
        raise ValueError(f"elements of the type {dtype}")
    if any(side < 0 for side in shape):
        raise ValueError(f"the shape {shape}")
    wanted, held = math.prod(shape) * dtype.itemsize, size - file.tell()
    if wanted > held:
        raise ValueError(f"{dtype} of shape {shape} has {wanted:,} bytes, and the file {held:,}")


def _check_text(array: npt.NDArray[Any]) -> None:
    if array.dtype.kind == "U" and array.size:
        points = np.ascontiguousarray(array).view(f"{array.dtype.byteorder}u4")
        if int(points.max()) > sys.maxunicode:
            raise ValueError("it holds characters that there are not")
