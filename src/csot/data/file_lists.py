"""Lists of image files in text files, and whether the files are there."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

from csot.data.errors import DataError, DataWarning


def read_lines(path: Path, source: str) -> list[str]:
    if not path.is_file():
        raise DataError(f"{source} needs {path}, which is not there")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start})") from error
    kept = [line.strip() for line in lines if line.strip()]
    if not kept:
        raise DataError(f"{path} is empty")
    return kept


def read_labelled_lines(path: Path, source: str, classes: int) -> list[tuple[str, int]]:
    """Lines of a path and a label, a space between."""
    pairs = []
    for number, line in enumerate(read_lines(path, source), start=1):
        name, _, label = line.rpartition(" ")
        if not name or not label.isascii() or not label.isdigit():
            raise DataError(f"{path}, line {number}: {line[:80]!r} is not a path and a label")
        if int(label) >= classes:
            raise DataError(
                f"{path}, line {number}: the label {label}; there are {classes} classes"
            )
        pairs.append((name.strip(), int(label)))
    return pairs


def check_files(paths: Sequence[Path], source: str) -> None:
    """Every file is there: each folder is listed once, which a million files bear."""
    held: dict[str, set[str]] = {}
    for path in paths:
        folder, name = os.path.split(path)
        if folder not in held:
            held[folder] = set(os.listdir(folder)) if os.path.isdir(folder) else set()
        if name not in held[folder]:
            raise DataError(f"{source}: its list names {path}, which is not there")


def warn_count(found: int, official: int, what: str) -> None:
    if found != official:
        warnings.warn(
            f"{what}: {found:,} images, where the official number is {official:,}; results do not "
            "compare with published ones",
            DataWarning,
            stacklevel=3,
        )
