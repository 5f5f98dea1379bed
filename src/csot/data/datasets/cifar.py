"""CIFAR-10 and CIFAR-100, from the official folders, binary or Python."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from csot._core.errors import DataError, listed
from csot._core.files import read_text
from csot.data.datasets.core.restricted_pickle import read_pickle
from csot.data.datasets.core.source_files import Archive, fetch_archive
from csot.data.labels import checked_class_numbers
from csot.data.samples import InMemory
from csot.data.types import DatasetRequest, TestSet, TrainingData

# The files of CIFAR, in the binary and in the Python layout, as arrays.

NAMES_LIMIT = 1 << 20
"""Bytes of a list of class names; the official ones have a few hundred."""
PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class CifarPart:
    """The images and labels of one or more files."""

    images: npt.NDArray[np.uint8]
    """(n, 3, 32, 32)."""
    fine: npt.NDArray[np.int64]
    coarse: npt.NDArray[np.int64] | None


def read_binary(path: Path, records: int, classes: int, coarse: bool) -> CifarPart:
    """Records of a label byte (of CIFAR-100: coarse, then fine) and 1024 bytes per channel."""
    _need(path)
    length = PIXELS + (2 if coarse else 1)
    size = path.stat().st_size
    if size != records * length:
        raise DataError(
            f"{path} has {size:,} bytes; {records * length:,} are needed ({records:,} images of "
            f"{length:,}): it is cut, or not a file of CIFAR. Get it again"
        )
    table = np.fromfile(path, dtype=np.uint8).reshape(records, length)
    fine = checked_class_numbers(table[:, -PIXELS - 1], records, classes, path, "the label")
    broad = (
        checked_class_numbers(table[:, 0], records, 20, path, "the coarse label")
        if coarse
        else None
    )
    return CifarPart(table[:, -PIXELS:].reshape(-1, 3, 32, 32), fine, broad)


def read_python(path: Path, records: int, classes: int, coarse: bool) -> CifarPart:
    """A pickled dict: `data` (n, 3072), and `labels`, or `fine_labels` and `coarse_labels`."""
    _need(path)
    held = read_pickle(path)
    wanted = ["data", "fine_labels", "coarse_labels"] if coarse else ["data", "labels"]
    pixels, fine, *broad = (_entry(held, key, path) for key in wanted)
    shape = getattr(pixels, "shape", None)
    if shape != (records, PIXELS) or pixels.dtype != np.uint8:
        found = shape if shape is None else f"{pixels.dtype} {shape}"
        raise DataError(
            f"{path}: 'data' is {found}; uint8 ({records}, {PIXELS}) is needed. Get the file again"
        )
    return CifarPart(
        np.ascontiguousarray(pixels).reshape(-1, 3, 32, 32),
        checked_class_numbers(fine, records, classes, path, repr(wanted[1])),
        checked_class_numbers(broad[0], records, 20, path, "'coarse_labels'") if broad else None,
    )


def read_names(path: Path, key: str, classes: int) -> list[str]:
    """Class names: a text file, one per line; or entry `key` of a pickled dict."""
    _need(path)
    if path.suffix == ".txt":
        held = [line.strip() for line in read_text(path, NAMES_LIMIT).splitlines()]
        names = [name for name in held if name]
    else:
        entry = _entry(read_pickle(path), key, path)
        names = [str(name) for name in entry] if isinstance(entry, list) else []
    if len(names) != classes:
        raise DataError(f"{path} holds {len(names)} class names; {classes} are needed")
    return names


def joined(parts: list[CifarPart]) -> CifarPart:
    coarse = [part.coarse for part in parts if part.coarse is not None]
    return CifarPart(
        np.concatenate([part.images for part in parts]),
        np.concatenate([part.fine for part in parts]),
        np.concatenate(coarse) if coarse else None,
    )


def _need(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{path} is missing: unpack the whole official archive")


def _entry(held: Any, key: str, path: Path) -> Any:
    """Keys are `str` or, where the file was written again, `bytes`."""
    if not isinstance(held, dict):
        raise DataError(f"{path} holds a {type(held).__name__}; a dict with {key!r} is needed")
    by_text = {k.decode("latin1") if isinstance(k, bytes) else str(k): v for k, v in held.items()}
    if key not in by_text:
        raise DataError(f"{path} has no entry {key!r}; it has {listed(by_text) or 'none'}")
    return by_text[key]


PLACE = "https://www.cs.toronto.edu/~kriz"


@dataclass(frozen=True)
class CifarVariant:
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
    layouts: tuple[CifarVariant, CifarVariant]
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
        CifarVariant(
            _archive(
                "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", "cifar-10-batches-bin"
            ),
            "batches.meta.txt",
        ),
        CifarVariant(
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
        CifarVariant(
            _archive(
                "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", "cifar-100-binary"
            ),
            "fine_label_names.txt",
            "coarse_label_names.txt",
        ),
        CifarVariant(
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


def read(name: str, request: DatasetRequest) -> TrainingData:
    """The official files, which may be downloaded."""
    return read_cifar(name, request.data_dir, request.download)


def read_cifar(
    name: str, data_dir: Path, download: bool = False, counts: tuple[int, int] | None = None
) -> TrainingData:
    """Read cifar10 or cifar100. `counts` are the official ones, except in tests."""
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


def find_folder(form: Form, data_dir: Path, download: bool = False) -> tuple[Path, CifarVariant]:
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


def _read(form: Form, layout: CifarVariant, folder: Path, file: str) -> CifarPart:
    path = folder / f"{file}{layout.suffix}"
    records = form.counts[file == form.test_file]
    read = read_binary if layout.suffix else read_python
    return read(path, records, form.classes, form.coarse)


def _superclasses(train: CifarPart, form: Form, folder: Path) -> Tensor:
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
