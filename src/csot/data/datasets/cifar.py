"""CIFAR-10 and CIFAR-100, from the official folders, binary or Python."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from csot._core.errors import DataError
from csot.data.datasets.core.cifar_files import Part, joined, read_binary, read_names, read_python
from csot.data.datasets.core.download import Archive, fetch_archive
from csot.data.datasets.core.request import Request
from csot.data.samples import InMemory
from csot.data.types import TestSet, TrainingData

PLACE = "https://www.cs.toronto.edu/~kriz"


@dataclass(frozen=True)
class Layout:
    """Binary files end in .bin, with names in .txt files; pickled ones have no ending."""

    archive: Archive
    names_file: str
    coarse_names_file: str = ""

    @property
    def suffix(self) -> str:
        return ".bin" if self.names_file.endswith(".txt") else ""


@dataclass(frozen=True)
class Form:
    """What one of the two data sets looks like on disk."""

    name: str
    classes: int
    coarse: bool
    train_files: tuple[str, ...]
    test_file: str
    names_key: str
    layouts: tuple[Layout, Layout]
    """Binary, then Python."""
    counts: tuple[int, int]
    """Images in each training file, and in the test file."""
    mean: tuple[float, ...]
    std: tuple[float, ...]


def _archive(name: str, md5: str, folder: str) -> Archive:
    return Archive(f"{PLACE}/{name}", md5, folder)


CIFAR10 = Form(
    name="cifar10",
    classes=10,
    coarse=False,
    train_files=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test_file="test_batch",
    names_key="label_names",
    layouts=(
        Layout(
            _archive(
                "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", "cifar-10-batches-bin"
            ),
            "batches.meta.txt",
        ),
        Layout(
            _archive(
                "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", "cifar-10-batches-py"
            ),
            "batches.meta",
        ),
    ),
    counts=(10_000, 10_000),
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2023, 0.1994, 0.2010),
)
CIFAR100 = Form(
    name="cifar100",
    classes=100,
    coarse=True,
    train_files=("train",),
    test_file="test",
    names_key="fine_label_names",
    layouts=(
        Layout(
            _archive(
                "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", "cifar-100-binary"
            ),
            "fine_label_names.txt",
            "coarse_label_names.txt",
        ),
        Layout(
            _archive(
                "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", "cifar-100-python"
            ),
            "meta",
            "meta",
        ),
    ),
    counts=(50_000, 10_000),
    mean=(0.507, 0.487, 0.441),  # of DivideMix and its family, CSOT among them
    std=(0.267, 0.256, 0.276),
)
FORMS = {form.name: form for form in (CIFAR10, CIFAR100)}
NAMES = tuple(FORMS)


def read(name: str, request: Request) -> TrainingData:
    """The official files, which may be downloaded."""
    return read_cifar(name, request.data_dir, request.download)


def read_cifar(
    name: str, data_dir: Path, download: bool = False, counts: tuple[int, int] | None = None
) -> TrainingData:
    """`name` is cifar10 or cifar100. `counts` are the official ones, but for tests."""
    form = FORMS[name] if counts is None else replace(FORMS[name], counts=counts)
    folder, layout = find_folder(form, data_dir, download)
    names = read_names(folder / layout.names_file, form.names_key, form.classes)
    train = joined([_read(form, layout, folder, file) for file in form.train_files])
    test = _read(form, layout, folder, form.test_file)
    labels = torch.from_numpy(train.fine)
    return TrainingData(
        name=name,
        train=InMemory(torch.from_numpy(train.images)),
        labels=labels,
        class_names=names,
        ids=[str(row) for row in range(len(labels))],
        tests=[
            TestSet("test", InMemory(torch.from_numpy(test.images)), torch.from_numpy(test.fine))
        ],
        true_labels=labels,
        superclasses=None if train.coarse is None else _superclasses(train, form, folder),
        mean=form.mean,
        std=form.std,
        source={"kind": name, "path": str(folder.resolve())},
    )


def coarse_names(name: str, data_dir: Path) -> list[str]:
    """The twenty superclasses of cifar100."""
    folder, layout = find_folder(FORMS[name], data_dir)
    return read_names(folder / layout.coarse_names_file, "coarse_label_names", 20)


def find_folder(form: Form, data_dir: Path, download: bool = False) -> tuple[Path, Layout]:
    """The first official folder that is `data_dir`, or in it, or in its folder cifar10/cifar100."""
    for layout in form.layouts:
        name = layout.archive.folder
        for folder in (data_dir, data_dir / name, data_dir / form.name / name):
            if (folder / f"{form.test_file}{layout.suffix}").is_file():
                return folder, layout
    layout = form.layouts[0]
    if download:
        return fetch_archive(layout.archive, data_dir), layout
    folders = " or ".join(f"{data_dir / layout.archive.folder}/" for layout in form.layouts)
    raise DataError(
        f"{form.name} is not there: {folders} is needed. Unpack {layout.archive.url} in "
        f"{data_dir}, name another folder with `data_dir`, or let `download` fetch it"
    )


def _read(form: Form, layout: Layout, folder: Path, file: str) -> Part:
    path = folder / f"{file}{layout.suffix}"
    records = form.counts[file == form.test_file]
    read = read_binary if layout.suffix else read_python
    return read(path, records, form.classes, form.coarse)


def _superclasses(train: Part, form: Form, folder: Path) -> Tensor:
    """(C,): from the images, of which each carries both labels."""
    assert train.coarse is not None
    coarse = np.full(form.classes, -1, dtype=np.int64)
    coarse[train.fine] = train.coarse
    wrong = coarse[train.fine] != train.coarse
    if wrong.any() or (coarse < 0).any():
        row = int(train.fine[np.flatnonzero(wrong)[0]]) if wrong.any() else int(coarse.argmin())
        found = "several superclasses" if wrong.any() else "no image"
        raise DataError(f"{folder}: class {row} has {found}; it is not the official CIFAR-100")
    return torch.from_numpy(coarse)
