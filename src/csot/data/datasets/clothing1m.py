"""Clothing1M: a million images with labels from shop texts, tested on clean ones.

    noisy_train_key_list.txt, clean_val_key_list.txt, clean_test_key_list.txt    "images/0/00/x.jpg"
    noisy_label_kv.txt, clean_label_kv.txt                                       "images/... 3"
    category_names_eng.txt                                                       14 names
    images/0/00/...

The text files may lie in a folder `annotations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from csot._core.errors import DataError
from csot._core.pictures import Containment
from csot.data.datasets.core.source_files import (
    check_files,
    read_labelled_lines,
    read_lines,
    warn_count,
)
from csot.data.samples import ImageFiles
from csot.data.types import DatasetRequest, TestSet, TrainingData

CLASSES = 14
SIZE = 256
"""Side of the square images in pixels, from which views cut 224 x 224."""
MEAN, STD = (0.6959, 0.6537, 0.6371), (0.3113, 0.3192, 0.3214)
PREFIX = "images/"
PLACE = "https://github.com/Cysu/noisy_label"

NAMES = ("clothing1m",)


@dataclass(frozen=True)
class Clothing1MCounts:
    train: int = 1_000_000
    test: int = 10_526
    val: int = 14_313


def read(name: str, request: DatasetRequest) -> TrainingData:
    """The official files."""
    return read_clothing1m(request)


def read_clothing1m(
    request: DatasetRequest, counts: Clothing1MCounts | None = None
) -> TrainingData:
    """The data set in `data_dir`, or in its folder `clothing1m`."""
    counts, size = counts or Clothing1MCounts(), request.image_size or SIZE
    root, texts = _places(request.data_dir)
    allowed = Containment(root, request.allow_outside)
    names = read_lines(texts / "category_names_eng.txt", "clothing1m")
    if len(names) != CLASSES:
        raise DataError(
            f"{texts / 'category_names_eng.txt'} has {len(names)} names; {CLASSES} are needed"
        )
    keys, labels = _split(texts, "noisy_train", "noisy_label_kv.txt", counts.train)
    paths = _paths(root, _listing(texts, "noisy_train"), keys, allowed)
    tests = []
    for name, count in (("clean_test", counts.test), ("clean_val", counts.val)):
        test_keys, test_labels = _split(texts, name, "clean_label_kv.txt", count)
        test_paths = _paths(root, _listing(texts, name), test_keys, allowed)
        tests.append(TestSet(name, ImageFiles(test_paths, size), test_labels))
    return TrainingData(
        name="clothing1m",
        train=ImageFiles(paths, size, whole=request.whole),
        labels=labels,
        class_names=names,
        ids=keys,
        tests=tests,
        mean=MEAN,
        std=STD,
        root=root,
        images=paths,
        source={"kind": "clothing1m", "path": str(root.resolve()), "root": str(root.resolve())},
    )


def _places(data_dir: Path) -> tuple[Path, Path]:
    """The folder that holds `images/`, and the folder of the text files."""
    listing = "noisy_train_key_list.txt"
    for root in (data_dir, data_dir / "clothing1m"):
        for texts in (root, root / "annotations"):
            if (texts / listing).is_file():
                return root, texts
    raise DataError(
        f"clothing1m is not there: {data_dir / listing}, the other lists beside it and "
        f"{data_dir}/images/ are needed. Its authors give it on request ({PLACE}); name another "
        "folder with `data_dir`"
    )


def _listing(texts: Path, split: str) -> Path:
    return texts / f"{split}_key_list.txt"


def _split(texts: Path, split: str, labels_file: str, count: int) -> tuple[list[str], Tensor]:
    listing = _listing(texts, split)
    keys = read_lines(listing, "clothing1m")
    if len(set(keys)) < len(keys):
        raise DataError(f"{listing} names an image twice: take the official list")
    label_of = dict(read_labelled_lines(texts / labels_file, "clothing1m", CLASSES))
    for number, key in enumerate(keys, start=1):
        if key not in label_of:
            raise DataError(
                f"{listing}, line {number}: {key!r} has no label in {texts / labels_file}"
            )
    warn_count(len(keys), count, f"clothing1m, {split}")
    return keys, torch.tensor([label_of[key] for key in keys])


def _paths(root: Path, listing: Path, keys: list[str], allowed: Containment) -> list[Path]:
    """Keys start with `images/`; some copies of the data have left that folder out."""
    plain = not (root / keys[0]).is_file() and (root / keys[0].removeprefix(PREFIX)).is_file()
    paths = [root / (key.removeprefix(PREFIX) if plain else key) for key in keys]
    check_files(paths, listing, allowed)
    return paths
