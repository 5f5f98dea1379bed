"""CIFAR-N label files over a small CIFAR."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from csot.data import DataError
from csot.data.datasets.cifar_n import read_cifar_n
from csot.data.datasets.core.dataset_registry import read_training_data
from csot.data.types import TrainingData
from source_files import (
    CIFAR10_COUNTS,
    CIFAR100_COUNTS,
    cifar10_batch,
    cifar100_labels,
    write_cifar10_python,
    write_cifar100,
    write_torch_zip,
)

CLEAN = np.concatenate([cifar10_batch(number, 4)[1] for number in range(1, 6)])
FINE, COARSE = cifar100_labels(200)
FILE = "CIFAR-10_human.pt"


def human10(**changed: Any) -> dict[str, Any]:
    names = ("aggre_label", "worse_label", "random_label1", "random_label2", "random_label3")
    noisy = {name: (CLEAN + shift) % 10 for shift, name in enumerate(names, start=1)}
    return {"clean_label": CLEAN, **noisy, **changed}


def read10(tmp_path: Path, kind: str = "worse", **changed: Any) -> TrainingData:
    shutil.rmtree(tmp_path / "cifar-10-batches-py", ignore_errors=True)
    write_cifar10_python(tmp_path / "cifar-10-batches-py")
    write_torch_zip(tmp_path / FILE, human10(**changed))
    return read_cifar_n(f"cifar10n:{kind}", tmp_path, counts=CIFAR10_COUNTS)


@pytest.mark.parametrize(
    ("kind", "shift"),
    [("aggre", 1), ("worse", 2), ("random1", 3), ("random2", 4), ("random3", 5)],
)
def test_cifar10n(tmp_path: Path, kind: str, shift: int) -> None:
    data = read10(tmp_path, kind)
    assert data.name == f"cifar10n:{kind}"
    assert data.labels.tolist() == ((CLEAN + shift) % 10).tolist()
    assert data.labels.dtype == torch.int64
    assert data.true_labels is not None
    assert data.true_labels.tolist() == CLEAN.tolist()
    assert data.tests[0].labels.tolist() == cifar10_batch(0, 10)[1].tolist()
    assert data.source["kind"] == f"cifar10n:{kind}"


@pytest.mark.parametrize("coarse", [False, True])
def test_cifar100n(tmp_path: Path, coarse: bool) -> None:
    write_cifar100(tmp_path / "cifar-100-python", binary=False)
    held = {
        "clean_label": FINE,
        "noisy_label": (FINE + 1) % 100,
        "clean_coarse_label": COARSE.tolist(),
        "noisy_coarse_label": ((COARSE + 1) % 20).tolist(),
    }
    (tmp_path / "cifar-10-100n" / "data").mkdir(parents=True)
    write_torch_zip(tmp_path / "cifar-10-100n" / "data" / "CIFAR-100_human.pt", held)
    name = "cifar100n:coarse" if coarse else "cifar100n"
    data = read_cifar_n(name, tmp_path, counts=CIFAR100_COUNTS)
    expected = (COARSE + 1) % 20 if coarse else (FINE + 1) % 100
    assert data.labels.tolist() == expected.tolist()
    assert len(data.class_names) == (20 if coarse else 100)
    assert (data.superclasses is None) == coarse
    assert data.tests[0].labels.tolist() == (COARSE if coarse else FINE)[:100].tolist()
    if coarse:
        assert data.class_names[3] == "coarse3"
        held["clean_coarse_label"] = [0] * 200
        path = tmp_path / "cifar-10-100n" / "data" / "CIFAR-100_human.pt"
        write_torch_zip(path, held)
        with pytest.raises(DataError, match="first version had wrong coarse labels"):
            read_cifar_n(name, tmp_path, counts=CIFAR100_COUNTS)


def test_another_order_is_found(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"another order.*tfds"):
        read10(tmp_path, clean_label=CLEAN[::-1].copy())
    other = CLEAN.copy()
    other[0] = (other[0] + 1) % 10
    with pytest.raises(DataError, match="differ from the images' own in 1 of 20 rows: get the"):
        read10(tmp_path, clean_label=other)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"worse_label": CLEAN[:5]}, r"worse_label is int64 \(5,\); 20 whole numbers"),
        ({"worse_label": CLEAN.astype(float)}, "worse_label is float64"),
        ({"worse_label": np.where(CLEAN == 3, 10, CLEAN)}, r"worse_label of image 8 .* is 10"),
    ],
)
def test_broken_labels(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read10(tmp_path, **changed)


def test_missing_files_and_entries(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"CIFAR-10_human\.pt.*github\.com/UCSC-REAL"):
        read_training_data("cifar10n:aggre", data_dir=tmp_path)
    write_cifar10_python(tmp_path / "cifar-10-batches-py")
    write_torch_zip(tmp_path / FILE, {"clean_label": CLEAN})
    with pytest.raises(DataError, match="no entry 'worse_label'; it has clean_label"):
        read_cifar_n("cifar10n:worse", tmp_path, counts=CIFAR10_COUNTS)
    write_torch_zip(tmp_path / FILE, [1])
    with pytest.raises(DataError, match="it has list"):
        read_cifar_n("cifar10n:worse", tmp_path, counts=CIFAR10_COUNTS)
