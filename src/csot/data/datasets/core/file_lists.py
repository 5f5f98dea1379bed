"""Lists of image files in text files, and whether the files are there."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

from csot._core.errors import DataError, DataWarning, naming
from csot._core.files import read_text
from csot._core.pictures import ALLOW_OUTSIDE, OUTSIDE, Containment

LARGEST = 512 << 20
"""Bytes: the longest official list, of 2.4 million files, has some 100 MB."""
LONGEST_LINE = 1000
DIGITS = 9


def read_lines(path: Path, source: str) -> list[str]:
    if not path.is_file():
        raise DataError(f"{source} needs {path}, which is not there")
    with naming(path, "a list of files", kind=DataError):
        lines = read_text(path, LARGEST).splitlines()
    kept = [line.strip() for line in lines if line.strip()]
    if any(len(line) > LONGEST_LINE for line in kept):
        raise DataError(f"{path} has a line of more than {LONGEST_LINE:,} characters")
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
        if len(label) > DIGITS or int(label) >= classes:
            raise DataError(
                f"{path}, line {number}: the label {label[:20]}; there are {classes} classes"
            )
        pairs.append((name.strip(), int(label)))
    return pairs


def check_files(paths: Sequence[Path], source: str, allowed: Containment) -> None:
    """Every file is there, and where it may be. Each folder is listed once: scales to millions."""
    held: dict[str, set[str]] = {}
    for path in paths:
        folder, name = os.path.split(path)
        if folder not in held:
            held[folder] = set(os.listdir(folder)) if os.path.isdir(folder) else set()
        if name not in held[folder]:
            raise DataError(f"{source}: its list names {path}, which is not there")
        if not allowed.allows(path):
            raise DataError(f"{source}: its list names {path}, but {OUTSIDE}; {ALLOW_OUTSIDE}")


def warn_count(found: int, official: int, what: str) -> None:
    if found != official:
        warnings.warn(
            f"{what}: {found:,} images, where the official number is {official:,}; results do not "
            "compare with published ones",
            DataWarning,
            stacklevel=3,
        )
