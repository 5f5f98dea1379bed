"""CIFAR-10N and CIFAR-100N: CIFAR with labels that people gave (Wei et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from csot._core.errors import DataError, listed
from csot.data.datasets.cifar import coarse_names, read_cifar
from csot.data.datasets.core.restricted_pickle import read_torch_zip
from csot.data.labels import checked_class_numbers
from csot.data.types import DatasetRequest, TestSet, TrainingData

PLACE = "https://github.com/UCSC-REAL/cifar-10-100n"


@dataclass(frozen=True)
class _Labels:
    base: str
    file: str
    clean: str
    noisy: str


def _ten(noisy: str) -> _Labels:
    return _Labels("cifar10", "CIFAR-10_human.pt", "clean_label", noisy)


COARSE = "cifar100n:coarse"
LABELS = {
    "cifar10n:aggre": _ten("aggre_label"),
    "cifar10n:worse": _ten("worse_label"),
    "cifar10n:random1": _ten("random_label1"),
    "cifar10n:random2": _ten("random_label2"),
    "cifar10n:random3": _ten("random_label3"),
    "cifar100n": _Labels("cifar100", "CIFAR-100_human.pt", "clean_label", "noisy_label"),
    COARSE: _Labels("cifar100", "CIFAR-100_human.pt", "clean_coarse_label", "noisy_coarse_label"),
}
NAMES = tuple(LABELS)


def read(name: str, request: DatasetRequest) -> TrainingData:
    """The labels from their file, the images from CIFAR's."""
    return read_cifar_n(name, request.data_dir, request.download)


def read_cifar_n(
    name: str, data_dir: Path, download: bool = False, counts: tuple[int, int] | None = None
) -> TrainingData:
    """CIFAR itself, with the people's labels given and CIFAR's own as the true ones."""
    form = LABELS[name]
    path = _find(form.file, data_dir, name)
    data = read_cifar(form.base, data_dir, download, counts)
    if name == COARSE:
        data = _coarsened(data, coarse_names(form.base, data_dir))
    held = read_torch_zip(path)
    clean = _labels(held, form.clean, data, path)
    noisy = _labels(held, form.noisy, data, path)
    _check_order(clean, data, path)
    source = {**data.source, "kind": name}
    return replace(data.with_labels(noisy), name=name, source=source)


def _find(file: str, data_dir: Path, name: str) -> Path:
    places = [data_dir, data_dir / "data", data_dir / "cifar-10-100n" / "data"]
    for place in places:
        if (place / file).is_file():
            return place / file
    raise DataError(
        f"{name} needs {data_dir / file}, which is not there: take data/{file} from {PLACE}; the "
        f"images are those of {LABELS[name].base}"
    )


def _coarsened(data: TrainingData, names: list[str]) -> TrainingData:
    coarse = data.superclasses
    assert coarse is not None
    truth = coarse[data.labels]
    return replace(
        data,
        labels=truth,
        true_labels=truth,
        class_names=names,
        superclasses=None,
        tests=[TestSet(test.name, test.samples, coarse[test.labels]) for test in data.tests],
    )


def _labels(held: Any, key: str, data: TrainingData, path: Path) -> Tensor:
    if not isinstance(held, dict) or key not in held:
        found = listed(held) if isinstance(held, dict) else type(held).__name__
        raise DataError(f"{path} has no entry {key!r}; it has {found}. Get the official file")
    labels = checked_class_numbers(held[key], len(data), len(data.class_names), path, key)
    return torch.from_numpy(labels)


def _check_order(clean: Tensor, data: TrainingData, path: Path) -> None:
    """The labels are of these images only if CIFAR's own labels stand beside them."""
    differ = int((clean != data.labels).sum())
    if not differ:
        return
    remedy = "get the official file"
    if torch.equal(clean.bincount(), data.labels.bincount()):
        remedy = (
            "the same labels in another order: the file for TensorFlow (tfds, _ordered) differs "
            "from the one for PyTorch, which is needed"
        )
    elif data.name == "cifar100" and len(data.class_names) == 20:
        remedy = "its first version had wrong coarse labels; get the present one"
    raise DataError(
        f"{path}: its clean labels differ from the images' own in {differ:,} of {len(clean):,} "
        f"rows: {remedy}"
    )
