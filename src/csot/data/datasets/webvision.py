"""mini-WebVision: the first 50 classes of WebVision 1.0, of its Google part; tested twice.

info/train_filelist_google.txt    "google/q0001/xyz.jpg 0", all 1,000 classes
info/val_filelist.txt             "val000001.jpg 0"
info/synsets.txt                  "n01440764 tench, Tinca tinca": line i is class i
google/q0001/...                  training images
val_images_256/                   validation images
imagenet/val/                     ILSVRC12 validation images, in folders 0 ... 49 or by synset
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from csot._core.errors import DataError, DataWarning, listed
from csot._core.pictures import SUFFIXES, Containment
from csot.data.datasets.core.source_files import (
    check_files,
    read_labelled_lines,
    read_lines,
    warn_count,
)
from csot.data.samples import ImageFiles
from csot.data.types import IMAGENET_MEAN, IMAGENET_STD, DatasetRequest, TestSet, TrainingData

CLASSES, ALL_CLASSES = 50, 1000
SIZE = 320
"""Side of the square images in pixels, from which views cut 299 x 299."""
PLACE = "https://data.vision.ee.ethz.ch/cvl/webvision/dataset2017.html"
IMAGENET_FOLDERS = ("imagenet/val", "Imagenet_val", "imagenet_val", "ILSVRC2012_img_val")

NAMES = ("webvision",)


@dataclass(frozen=True)
class WebVisionCounts:
    train: int = 65_944
    val: int = 2_500
    imagenet: int = 2_500


def read(name: str, request: DatasetRequest) -> TrainingData:
    """The official files."""
    return read_webvision(request)


def read_webvision(request: DatasetRequest, counts: WebVisionCounts | None = None) -> TrainingData:
    """The data set in `data_dir`, or in its folder `webvision`."""
    counts, size = counts or WebVisionCounts(), request.image_size or SIZE
    root = _root(request.data_dir)
    allowed = Containment(root, request.allow_outside)
    names, synsets = _class_names(root)
    listing = root / "info" / "train_filelist_google.txt"
    paths, labels = _listed(root, listing, ("", "google"), allowed)
    warn_count(len(paths), counts.train, "webvision, training")
    val_listing = root / "info" / "val_filelist.txt"
    val_paths, val_labels = _listed(root, val_listing, ("val_images_256", ""), allowed)
    warn_count(len(val_paths), counts.val, "webvision, validation")
    tests = [TestSet("webvision", ImageFiles(val_paths, size), val_labels)]
    imagenet = _imagenet(root, synsets)
    if imagenet is not None:
        warn_count(len(imagenet[0]), counts.imagenet, "webvision, ILSVRC12 validation")
        tests.append(TestSet("ilsvrc12", ImageFiles(imagenet[0], size), imagenet[1]))
    return TrainingData(
        name="webvision",
        train=ImageFiles(paths, size, whole=request.whole),
        labels=labels,
        class_names=names,
        ids=[path.relative_to(root).as_posix() for path in paths],
        tests=tests,
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        root=root,
        images=paths,
        source={"kind": "webvision", "path": str(root.resolve()), "root": str(root.resolve())},
    )


def _root(data_dir: Path) -> Path:
    for root in (data_dir, data_dir / "webvision"):
        if (root / "info").is_dir():
            return root
    raise DataError(
        f"webvision is not there: {data_dir}/info/train_filelist_google.txt, {data_dir}/google/, "
        f"{data_dir}/val_images_256/ and {data_dir}/imagenet/val/ are needed. Get them from "
        f"{PLACE} (Google images, resized), or name another folder with `data_dir`"
    )


def _class_names(root: Path) -> tuple[list[str], list[str]]:
    """Names and synsets of the 50 classes; numbers and no synsets where the list is missing."""
    path = root / "info" / "synsets.txt"
    if not path.is_file():
        return [str(number) for number in range(CLASSES)], []
    lines = read_lines(path, "webvision")
    if len(lines) < CLASSES:
        raise DataError(f"{path} has {len(lines)} lines; at least {CLASSES} are needed")
    synsets = [line.split()[0] for line in lines[:CLASSES]]
    # The name alone may be there twice (crane, maillot); with the synset it is not.
    words = [line.partition(" ")[2].partition(",")[0].strip() for line in lines[:CLASSES]]
    unique = len(set(words)) == CLASSES and all(words)
    return (words if unique else synsets), synsets


def _listed(
    root: Path, listing: Path, starts: tuple[str, ...], allowed: Containment
) -> tuple[list[Path], Tensor]:
    """Files of the first 50 classes. Paths start from the first of `starts` that holds one."""
    pairs = [
        pair for pair in read_labelled_lines(listing, "webvision", ALL_CLASSES) if pair[1] < CLASSES
    ]
    if not pairs:
        raise DataError(f"{listing} names no image of the classes 0 to {CLASSES - 1}")
    found = [start for start in starts if (root / start / pairs[0][0]).is_file()]
    start = root / (found or starts)[0]
    paths = [start / name for name, _ in pairs]
    check_files(paths, listing, allowed)
    return paths, torch.tensor([label for _, label in pairs])


def _imagenet(root: Path, synsets: list[str]) -> tuple[list[Path], Tensor] | None:
    folders = [base / name for base in (root, root.parent) for name in IMAGENET_FOLDERS]
    folder = next((folder for folder in folders if folder.is_dir()), None)
    if folder is None:
        warnings.warn(
            f"webvision: no ILSVRC12 validation images, so there is no second test: put them in "
            f"{root}/imagenet/val/, in folders 0 to {CLASSES - 1} or named by synset",
            DataWarning,
            stacklevel=3,
        )
        return None
    numbers = [str(number) for number in range(CLASSES)]
    names = numbers if (folder / "0").is_dir() else synsets
    if not names:
        raise DataError(
            f"{folder} has no folder 0; folders named by synset need {root}/info/synsets.txt, "
            "which says their order"
        )
    missing = [name for name in names if not (folder / name).is_dir()]
    if missing:
        raise DataError(f"{folder} has no folder {listed(missing, 3)}: one per class is needed")
    paths: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(names):
        inside = sorted(file for file in (folder / name).iterdir() if _is_image(file))
        paths += inside
        labels += [label] * len(inside)
    if not paths:
        raise DataError(f"{folder} holds no images in its folders")
    return paths, torch.tensor(labels)


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
