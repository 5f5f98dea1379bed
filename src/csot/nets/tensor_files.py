"""Read tensors from untrusted files: no code is executed, and no tensor exceeds its file."""

from __future__ import annotations

import zipfile
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from csot._core.errors import FileError, naming
from csot._core.files import check_file, open_zip

HEADER = 32 << 20
"""Bytes that describe the tensors of a safetensors file; ten thousand tensors need 2 MB."""
VALUES = 2_000_000
"""Numbers, texts and tensors of a file; a long training run has ten thousand."""
DEPTH = 64
REPEATS = 4
"""How often a byte of the file may occur in its tensors, as tensors may share memory."""


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file, by name."""
    try:
        from safetensors.torch import load_file
    except ModuleNotFoundError as error:
        raise ImportError(
            f"reading {path} needs the package safetensors: pip install 'csot[train]'"
        ) from error
    check_file(path)
    with naming(path, "a safetensors file"):
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
        if length > HEADER:
            raise FileError(f"{path} has a header of {length:,} bytes; at most {HEADER:,} are read")
        found: dict[str, Tensor] = load_file(path)
        return found


def read_torch(path: Path, legacy: bool = False) -> Any:
    """Read what `torch.save` wrote: tensors, numbers, text, lists and dicts, on the CPU.

    `legacy` also accepts files of torch before 1.6, which are not zip archives.
    """
    size = check_file(path)
    what = "a file of tensors that torch.save wrote"
    with naming(path, what):
        if zipfile.is_zipfile(path):
            with open_zip(path, what) as archive:
                if any(info.compress_type for info in archive.infolist()):
                    raise FileError(f"{path} is compressed, which torch.save never does")
        elif not legacy:
            raise ValueError("it is not a zip archive")
        try:
            value = torch.load(path, map_location="cpu", weights_only=True)
        except UnpicklingError as error:  # its own message recommends executing the file
            raise ValueError("it is damaged, or holds more than tensors and numbers") from error
        _Checked(path, REPEATS * size).check(value, DEPTH)
        return value


class _Checked:
    """Counts values and bytes recursively; a value that occurs twice counts twice."""

    def __init__(self, path: Path, bytes_left: int) -> None:
        self._path = path
        self._bytes_left = bytes_left
        self._values_left = VALUES

    def check(self, value: Any, depth: int) -> None:
        self._values_left -= 1
        if self._values_left < 0 or depth < 0:
            raise FileError(
                f"{self._path} holds more than {VALUES:,} values or {DEPTH} levels of lists"
            )
        if isinstance(value, Tensor):
            self._bytes_left -= value.numel() * value.element_size()
            if self._bytes_left < 0 or value.layout is not torch.strided:
                raise FileError(f"{self._path} has tensors of more bytes than the file")
        elif isinstance(value, dict):
            for key, entry in value.items():
                self.check(key, depth - 1)
                self.check(entry, depth - 1)
        elif isinstance(value, list | tuple | set | frozenset):
            for entry in value:
                self.check(entry, depth - 1)
