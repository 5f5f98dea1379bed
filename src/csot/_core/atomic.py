"""Writes that happen entirely or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

PARTIAL = ".partial"
"""Ending of the temporary file. Only a killed process leaves one behind."""


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A binary file that becomes ``path`` when the block ends without an error.

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
    """A free name beside ``path`` for a new file or folder, which becomes ``path`` at the end.

    Nothing is left behind if the block fails. Folders above ``path`` are made.
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
