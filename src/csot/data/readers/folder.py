"""A folder of images, one sub-folder per class."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from csot._core.errors import DataError, DataWarning, listed
from csot._core.pictures import ALLOW_OUTSIDE, OUTSIDE, SUFFIXES, Containment, fault
from csot.data.labels import tidy_labels
from csot.data.types import LabelledData, Skipped

SPLITS = {"train", "training", "val", "valid", "validation", "test", "dev"}
NOT_READ = frozenset(
    f".{ending}"
    for ending in (
        *("heic", "heif", "avif", "jxl", "jp2", "j2k", "svg", "psd", "eps", "pdf", "ico", "tga"),
        *("raw", "dng", "cr2", "cr3", "nef", "arw", "orf", "rw2", "raf", "exr", "hdr", "dcm"),
        *("mp4", "mov", "avi", "webm", "mkv"),
    )
)
"""Endings of pictures and films that are not read, and listed as such."""


def read_image_folder(
    folder: Path,
    check: Callable[[Path], str | None] = fault,
    labelled: bool = True,
    allow_outside: bool = False,
) -> LabelledData:
    """Class = name of the sub-folder, id = path below `folder`. Broken images are skipped, and so
    are links to images elsewhere, unless `allow_outside` is given.

    `check` says what is wrong with an image; it may use a cache to avoid decoding. Unless the data
    has to be `labelled`, one class is enough, and images may lie directly in `folder`.
    """
    classes = sorted(
        entry.name for entry in folder.iterdir() if entry.is_dir() and not _hidden(entry.name)
    )
    loose = [
        entry
        for entry in sorted(folder.iterdir())
        if entry.is_file() and not _hidden(entry.name) and _is_picture(entry)
    ]
    if labelled:
        _check_layout(folder, classes, loose)
    allowed = Containment(folder, allow_outside)
    images: list[Path] = []
    names: list[str | None] = []
    skipped: list[Skipped] = []

    def take(path: Path, label: str | None) -> None:
        reason = None
        if label is None and labelled:
            reason = "in no class folder"
        elif path.suffix.lower() in NOT_READ:
            reason = (
                f"files of the kind {path.suffix.lower()} are not read: save them as JPEG or PNG"
            )
        elif not allowed.allows(path):
            reason = f"{OUTSIDE}; {ALLOW_OUTSIDE}"
        reason = reason or check(path)
        if reason is not None:
            skipped.append(Skipped(path.relative_to(folder).as_posix(), reason))
        else:
            images.append(path)
            names.append(label)

    for path in loose:
        take(path, None)
    for name in classes:
        before = len(images)
        for path in _pictures_below(folder / name):
            take(path, name)
        if len(images) == before and labelled:
            warnings.warn(
                f"{folder.name}/{name} has no readable image: that class is left out",
                DataWarning,
                stacklevel=2,
            )
    if not images:
        _refuse_empty(folder, classes, skipped)
    labels = tidy_labels(names, f"{folder.name}: the folder names")
    ids = [path.relative_to(folder).as_posix() for path in images]
    return LabelledData(
        kind="images", root=folder, ids=ids, labels=labels, images=images, skipped=skipped
    )


def _check_layout(folder: Path, classes: list[str], loose: list[Path]) -> None:
    if not classes:
        seen = f"{len(loose)} images directly in it" if loose else "no images"
        raise DataError(
            f"{folder} has no sub-folders and {seen}; one sub-folder per class is needed, such as "
            f"{folder.name}/cat/1.png"
        )
    if {name.lower() for name in classes} <= SPLITS:
        raise DataError(
            f"{folder} holds splits ({listed(classes)}), not classes; pass one of them: "
            f"{folder / classes[0]}"
        )


def _refuse_empty(folder: Path, classes: list[str], skipped: list[Skipped]) -> None:
    where = f" in its sub-folders {listed(classes, 5)}" if classes else ""
    broken = (
        f"; {len(skipped)} are unreadable, first {skipped[0].id}: {skipped[0].reason}"
        if skipped
        else ""
    )
    raise DataError(
        f"{folder} has no readable image{where}{broken}; read are {listed(sorted(SUFFIXES))}"
    )


def _pictures_below(folder: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _hidden(name))
        yield from (
            Path(where, name)
            for name in sorted(files)
            if not _hidden(name) and _is_picture(Path(name))
        )


def _is_picture(path: Path) -> bool:
    """Whether it is one by its name, read or not."""
    return path.suffix.lower() in SUFFIXES | NOT_READ


def _hidden(name: str) -> bool:
    return name.startswith((".", "__MACOSX"))
