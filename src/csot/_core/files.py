"""Files: read within bounds, as they may be broken or hostile; and written entirely or not at all.

Bytes, text, JSON, zip, npy and npz.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import shutil
import stat
import sys
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from csot._core.errors import DataError, FileError, naming

RATIO = 100
"""How many times its own size a compressed file may unpack to ..."""
FLOOR = 256 << 20
"""... or up to this many bytes, if that is more."""


def check_file(path: Path, limit: int | None = None) -> int:
    """The size of a regular file; a pipe or device would never end."""
    with naming(path, "a readable file"):
        found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise FileError(f"{path} is not a file")
    if limit is not None and found.st_size > limit:
        raise FileError(
            f"{path} has {found.st_size:,} bytes; at most {limit:,} are read, several times what "
            "such a file needs"
        )
    return found.st_size


def check_expansion(path: Path, unpacked: int, held: int) -> None:
    """Refuse files that would unpack to far more than legitimate data of that size."""
    allowed = max(FLOOR, RATIO * held)
    if unpacked > allowed:
        raise FileError(
            f"{path} has {held:,} bytes and would unpack to {unpacked:,}; at most {allowed:,} are "
            f"read ({RATIO} times its size, or {FLOOR >> 20} MB): write it without compression"
        )


def refuse_overlap(data: Path, out: Path) -> None:
    """An error if the results `out` are or lie in `data`, or the other way round.

    One would overwrite the other.
    """
    run, source = out.resolve(), data.resolve()
    if run == source or run.is_relative_to(source):
        raise DataError(
            f"`out` {out} is or lies in the data {data}, which is never changed; choose a folder "
            "outside of it"
        )
    if source.is_relative_to(run):
        raise DataError(
            f"{data} lies in `out` {out}, where results are replaced; choose another folder"
        )


def read_bytes(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes."""
    check_file(path, limit)
    with naming(path, "a readable file"), open(path, "rb") as file:
        return file.read(limit)


def read_gzip(path: Path) -> bytes:
    """The unpacked content of a .gz file, within the bounds of `check_expansion`."""
    held = check_file(path)
    allowed = max(FLOOR, RATIO * held)
    with naming(path, "a readable .gz file"), gzip.open(path, "rb") as file:
        content = file.read(allowed + 1)
    check_expansion(path, len(content), held)
    return content


def read_text(path: Path, limit: int) -> str:
    """The same, as UTF-8; a byte order mark is skipped."""
    content = read_bytes(path, limit)
    with naming(path, "UTF-8 text"):
        return content.decode("utf-8-sig")


def read_json(path: Path, limit: int) -> Any:
    """Any JSON value."""
    text = read_text(path, limit)
    with naming(path, "JSON"):
        return json.loads(text)


MEMBERS = 100_000
ENCRYPTED = 0x1
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What NumPy and torch write; the decoders of the others unpack without a bound."""


@contextmanager
def open_zip(path: Path, what: str, remedy: str = "") -> Iterator[zipfile.ZipFile]:
    """The archive, once the total size of its members has been found plausible.

    `zipfile` never reads more of a member than its declared size, so the declaration is a bound.
    """
    held = check_file(path)
    with naming(path, what, remedy):
        archive = zipfile.ZipFile(path)
    with archive:
        members = archive.infolist()
        if len(members) > MEMBERS:
            raise FileError(f"{path} holds {len(members):,} members; at most {MEMBERS:,} are read")
        for info in members:
            if info.flag_bits & ENCRYPTED or info.compress_type not in METHODS:
                how = "encrypted" if info.flag_bits & ENCRYPTED else "compressed in another way"
                raise FileError(f"{path} holds {info.filename[:80]!r}, which is {how}: not read")
        check_expansion(path, sum(info.file_size for info in members), held)
        yield archive


WHAT = "a readable .npy array"
OBJECTS = "Python objects"
KINDS = "biufcSUmM"
"""Types of elements that are read: numbers, texts and times; no pickles."""


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
    """The array `name` of an .npz file that `open_zip` opened."""
    info = archive.getinfo(f"{name}.npy")
    with naming(f"{path}: {name}", WHAT):
        with archive.open(info) as file:
            _check_header(file, info.file_size)
            file.seek(0)
            array: npt.NDArray[Any] = npy_format.read_array(file, allow_pickle=False)
        _check_text(array)
        return array


def can_be_path(name: str) -> bool:
    """Whether a text can name a file at all: no NUL, and no half of a surrogate pair."""
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def write_npz(file: BinaryIO, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """As `numpy.savez`, but never a pickle.

    `savez` of NumPy 2.0 and before takes `allow_pickle` for the name of one more array, and none
    takes an array with the name `file`.
    """
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy_format.write_array(member, np.asanyarray(array), allow_pickle=False)


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
            raise ValueError("it holds code points that do not exist")


PARTIAL = ".partial"
"""Ending of the temporary file. Only a killed process leaves one behind."""


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A binary file that becomes `path` when the block ends without an error.

    Until then readers see the old file. The data are on the disk before the name changes.
    """
    partial = _partial(path)
    try:
        with open(partial, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A free name beside `path` for a new file or folder, which becomes `path` at the end.

    Nothing is left behind if the block fails. Folders above `path` are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(path)
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)
        raise


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}{PARTIAL}")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 atomically. File names that are not UTF-8 keep their bytes."""
    with atomic_write(path) as file:
        file.write(text.encode("utf-8", "surrogateescape"))


def is_partial(path: Path) -> bool:
    """Whether it is what a killed writer left."""
    return path.name.startswith(".") and path.name.endswith(PARTIAL)


def remove_partials(folder: Path) -> None:
    """Delete what killed writers left."""
    for partial in folder.glob(f".*{PARTIAL}"):
        partial.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable, where the system allows it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
