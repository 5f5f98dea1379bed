"""Whole files, up to a size that is a small multiple of what an honest one needs."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from csot.untrusted.errors import FileError, naming

RATIO = 100
"""How many times its own size a compressed file may unpack to ..."""
FLOOR = 256 << 20
"""... or up to so many bytes, if that is more."""


def check_file(path: Path, limit: int | None = None) -> int:
    """The size of a regular file; a pipe or device would be read for ever."""
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
    """Refuse what would unpack to far more than honest data of that size."""
    allowed = max(FLOOR, RATIO * held)
    if unpacked > allowed:
        raise FileError(
            f"{path} has {held:,} bytes and would unpack to {unpacked:,}; at most {allowed:,} are "
            f"read ({RATIO} times its size, or {FLOOR >> 20} MB): write it without compression"
        )


def read_bytes(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most ``limit`` bytes."""
    check_file(path, limit)
    with naming(path, "a readable file"), open(path, "rb") as file:
        return file.read(limit)


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
