"""Arrays of .npy files and of .npz members, without pickles and without believing the header."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from csot.untrusted.errors import FileError, naming
from csot.untrusted.files import check_file

WHAT = "a readable .npy array"
OBJECTS = ("allow_pickle", "Python objects", "Object arrays")
"""In NumPy's messages about arrays that only a pickle could hold."""


def read_npy(path: Path, mapped: bool = False) -> npt.NDArray[Any]:
    """The array, or a read-only memory map of it.

    Mapped in either case: NumPy would otherwise reserve what the header says, not what there is.
    """
    size = check_file(path)
    with naming(path, WHAT):
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise FileError(f"{path} is not a single array, but an archive of arrays")
        _check_count(array, size, path)
        return array if mapped else np.array(array)


def read_member(archive: zipfile.ZipFile, name: str, path: Path) -> npt.NDArray[Any]:
    """The array ``name`` of an .npz file that `open_zip` opened."""
    info = archive.getinfo(f"{name}.npy")
    with naming(f"{path}: {name}", WHAT), archive.open(info) as file:
        array = _read_stream(file)
        _check_count(array, info.file_size, path)
        return array


def is_of_objects(error: BaseException) -> bool:
    """Whether an array was refused because it holds Python objects."""
    return any(word in str(error) for word in OBJECTS)


def _read_stream(file: IO[bytes]) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return array


def _check_count(array: npt.NDArray[Any], size: int, path: Path) -> None:
    """Elements of no bytes cost nothing to declare, and for ever to go through."""
    if array.size > size:
        raise FileError(f"{path} declares {array.size:,} elements in {size:,} bytes")
