"""A folder of images, one sub-folder per class."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from csot._core.errors import DataError, DataWarning, listed
from csot._core.pictures import ALLOW_OUTSIDE, OUTSIDE, SUFFIXES, Containment, fault
from csot.data.labels import check_classes, tidy_labels
from csot.data.types import LabelledData, Skipped

SPLITS = {"train", "training", "val", "valid", "validation", "test", "dev"}


def read_image_folder(
    folder: Path,
    check: Callable[[Path], str | None] = fault,
    labelled: bool = True,
    allow_outside: bool = False,
) -> LabelledData:
    """Class = name of the sub-folder, id = path below `folder`. Broken images are skipped, and so
    are links to images elsewhere, unless `allow_outside` is given.

    `check` says what is wrong with an image; a cache may spare it the decoding. Unless the data
    has to be `labelled`, one class is enough.
    """
    classes = sorted(
        entry.name for entry in folder.iterdir() if entry.is_dir() and not _hidden(entry.name)
    )
    loose = [entry for entry in sorted(folder.iterdir()) if entry.is_file() and _is_image(entry)]
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
    skipped = [Skipped(path.name, "in no class folder") for path in loose]
    allowed = Containment(folder, allow_outside)
    ids: list[str] = []
    images: list[Path] = []
    names: list[str] = []
    for name in classes:
        before = len(ids)
        for path in _images_below(folder / name):
            identity = path.relative_to(folder).as_posix()
            outside = not allowed.allows(path)
            reason = f"{OUTSIDE}; {ALLOW_OUTSIDE}" if outside else check(path)
            if reason is not None:
                skipped.append(Skipped(identity, reason))
                continue
            ids.append(identity)
            images.append(path)
            names.append(name)
        if len(ids) == before:
            warnings.warn(
                f"{folder.name}/{name} has no readable image: that class is left out",
                DataWarning,
                stacklevel=2,
            )
    if not ids:
        broken = (
            f"; {len(skipped)} are unreadable, first {skipped[0].id}: {skipped[0].reason}"
            if skipped
            else ""
        )
        raise DataError(
            f"{folder} has no readable image in its sub-folders {listed(classes, 5)}{broken}; "
            f"read are {listed(sorted(SUFFIXES))}"
        )
    labels = tidy_labels(names, f"{folder.name}: the folder names")
    if labelled:
        check_classes(labels, str(folder))
    return LabelledData(
        kind="images", root=folder, ids=ids, labels=labels, images=images, skipped=skipped
    )


def _images_below(folder: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _hidden(name))
        yield from (Path(where, name) for name in sorted(files) if _is_image(Path(name)))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not _hidden(path.name)


def _hidden(name: str) -> bool:
    return name.startswith((".", "__MACOSX"))
