"""Pickles that hold arrays, lists, dicts, text and numbers. Anything else is refused unrun.

A pickle is a programme: it names functions and calls them. Here every name is looked up in a short
list, what is not on it never gets imported, and what is on it stands for code of this file. NumPy's
own would not do: it believes what a pickle says of its memory.
"""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from csot.data.errors import DataError

LARGEST = 2 << 30
"""Bytes; the largest official file has 150 MB."""
NUMBERS = re.compile(r"[biuf][0-9]{1,2}")
PLAIN = (str, bytes, bool, int, float, type(None), np.generic)


class _StandIn:
    """A pickle may also set the state of what it named; only where a class says so."""

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError(f"a state for {type(self).__name__}")


class _Text(_StandIn):
    """`_codecs.encode`: how Python 3 writes bytes for Python 2, and for nothing beside that."""

    def __new__(cls, text: str, encoding: str = "") -> Any:
        if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
            raise pickle.UnpicklingError(f"the encoding {encoding!r}")
        return text.encode("latin1")


class _NoBytes(_StandIn):
    """`bytes()`: how they write none."""

    def __new__(cls) -> Any:
        return b""


class _Dtype(_StandIn):
    """`numpy.dtype`, of numbers."""

    def __init__(self, code: str, *_: Any) -> None:
        if not isinstance(code, str) or not NUMBERS.fullmatch(code):
            raise pickle.UnpicklingError(f"an array of the type {code!r}")
        self.dtype: np.dtype[Any] = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        """(version, byte order, no parts ...)."""
        _, order, *parts = state
        if order not in ("<", ">", "|", "=") or any(part is not None for part in parts[:3]):
            raise pickle.UnpicklingError(f"an array type with the state {state!r}")
        self.dtype = self.dtype.newbyteorder(order)


class _Scalar(_StandIn):
    """`numpy.core.multiarray.scalar`."""

    def __new__(cls, kind: _Dtype, raw: str | bytes) -> Any:
        return _numbers(kind, raw)[0]


class _Array(_StandIn):
    """`numpy.core.multiarray._reconstruct`: an empty array, which its state then fills."""

    def __init__(self, *_: Any) -> None:
        self.array: npt.NDArray[Any] = np.empty(0)

    def __setstate__(self, state: Any) -> None:
        """(version, shape, dtype, whether Fortran's order, content)."""
        _, shape, kind, fortran, raw = state
        self.array = _numbers(kind, raw).reshape(shape, order="F" if fortran else "C")


def _numbers(kind: _Dtype, raw: str | bytes) -> npt.NDArray[Any]:
    """A copy of its own: the content of a pickle cannot be written to."""
    content = raw.encode("latin1") if isinstance(raw, str) else raw
    return np.frombuffer(content, kind.dtype).copy()


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): object(),  # named by each array, and never called
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Text,
    ("__builtin__", "bytes"): _NoBytes,
}
for _package in ("numpy.core", "numpy._core"):  # before and since NumPy 2
    ALLOWED[f"{_package}.multiarray", "_reconstruct"] = _Array
    ALLOWED[f"{_package}.multiarray", "scalar"] = _Scalar


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("a reference to something outside of the pickle")


def _plain(value: Any) -> Any:
    """Stand-ins for arrays become arrays."""
    if isinstance(value, _Array):
        return value.array
    if type(value) is dict:
        return {_plain(key): _plain(entry) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_plain(entry) for entry in value)
    if isinstance(value, PLAIN):
        return value
    raise pickle.UnpicklingError(f"a {type(value).__name__}")


def read_pickle(path: Path) -> Any:
    """What the file holds. Text of Python 2 is read as latin1, so keys are `str`."""
    if path.stat().st_size > LARGEST:
        raise DataError(f"{path} has {path.stat().st_size:,} bytes: that is no official file")
    return loads(path.read_bytes(), path)


def read_torch_zip(path: Path) -> Any:
    """What `torch.save` wrote, where that is arrays and lists, not tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            inner = [info for info in archive.infolist() if info.filename.endswith("data.pkl")]
            if len(inner) != 1 or inner[0].file_size > LARGEST:
                raise DataError(f"{path} is no file of torch.save: it holds no single data.pkl")
            content = archive.read(inner[0])
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise DataError(
            f"{path} is no file of torch.save, or is cut ({error}); get it again"
        ) from error
    return loads(content, path)


def loads(content: bytes, path: Path) -> Any:
    try:
        return _plain(_Unpickler(io.BytesIO(content), encoding="latin1").load())
    except pickle.UnpicklingError as error:
        raise DataError(
            f"{path} is cut, or holds more than arrays, lists, text and numbers: {error}. Pickles "
            "can run code, so it is not read; get the official file"
        ) from error
    except Exception as error:  # a broken pickle raises nearly anything
        raise DataError(f"{path} is no readable pickle ({error}); get the file again") from error
