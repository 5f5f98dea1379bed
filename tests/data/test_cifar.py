"""CIFAR in its official layouts, a few images each."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from csot.data import DataError
from csot.data.datasets.cifar import CIFAR10, read_cifar
from csot.data.datasets.core.dataset_registry import read_training_data
from source_files import (
    CIFAR10_COUNTS,
    CIFAR10_NAMES,
    CIFAR100_COUNTS,
    cifar10_batch,
    cifar100_labels,
    pixels,
    write_cifar10_binary,
    write_cifar10_python,
    write_cifar100,
    write_pickle,
)

WRITERS = {
    "cifar-10-batches-bin": write_cifar10_binary,
    "cifar-10-batches-py": write_cifar10_python,
}


def read10(data_dir: Path) -> object:
    return read_cifar("cifar10", data_dir, counts=CIFAR10_COUNTS)


@pytest.mark.parametrize("folder", WRITERS)
@pytest.mark.parametrize("inside", ["", "cifar10"])
def test_cifar10(tmp_path: Path, folder: str, inside: str) -> None:
    WRITERS[folder](tmp_path / inside / folder)
    data = read_cifar("cifar10", tmp_path, counts=CIFAR10_COUNTS)
    batches = [cifar10_batch(number, 4) for number in range(1, 6)]
    assert data.name == "cifar10"
    assert data.class_names == CIFAR10_NAMES
    assert data.train.shape == (3, 32, 32)
    images = np.concatenate([images for images, _ in batches]).reshape(-1, 3, 32, 32)
    assert torch.equal(data.train.batch(torch.arange(20)), torch.from_numpy(images))
    assert data.labels.tolist() == [label for _, labels in batches for label in labels]
    assert data.true_labels is not None
    assert torch.equal(data.true_labels, data.labels)
    assert data.tests[0].labels.tolist() == cifar10_batch(0, 10)[1].tolist()
    assert len(set(data.ids)) == 20
    assert data.superclasses is None
    assert data.source == {"kind": "cifar10", "path": str((tmp_path / inside / folder).resolve())}


def test_the_folder_itself_may_be_named(tmp_path: Path) -> None:
    folder = write_cifar10_binary(tmp_path / "mine")
    assert len(read_cifar("cifar10", folder, counts=CIFAR10_COUNTS)) == 20


@pytest.mark.parametrize("binary", [True, False])
def test_cifar100(tmp_path: Path, binary: bool) -> None:
    write_cifar100(tmp_path / ("cifar-100-binary" if binary else "cifar-100-python"), binary)
    data = read_cifar("cifar100", tmp_path, counts=CIFAR100_COUNTS)
    fine, coarse = cifar100_labels(100)
    assert data.labels[:100].tolist() == fine.tolist()
    assert data.superclasses is not None
    assert data.superclasses.tolist() == coarse.tolist()
    assert data.class_names[7] == "fine7"
    images = pixels(100, 1).reshape(-1, 3, 32, 32)
    assert torch.equal(data.tests[0].samples.batch(torch.arange(100)), torch.from_numpy(images))


def test_official_counts_are_the_default(tmp_path: Path) -> None:
    write_cifar10_binary(tmp_path / "cifar-10-batches-bin")
    with pytest.raises(DataError, match=r"data_batch_1\.bin has 12,292 bytes; 30,730,000 are"):
        read_training_data("cifar10", data_dir=tmp_path)
    assert CIFAR10.counts == (10_000, 10_000)


def test_nothing_there_names_file_place_and_address(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_training_data("cifar100", data_dir=tmp_path)
    for part in (
        str(tmp_path / "cifar-100-binary"),
        str(tmp_path / "cifar-100-python"),
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "`data_dir`",
        "`download`",
    ):
        assert part in str(caught.value)


def cut(folder: Path) -> None:
    path = folder / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-5])


def wrong_label(folder: Path) -> None:
    path = folder / "data_batch_2.bin"
    content = bytearray(path.read_bytes())
    content[3073] = 10
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (cut, r"data_batch_3\.bin has 12,287 bytes"),
        (wrong_label, r"data_batch_2\.bin: the label of image 1 \(from 0\) is 10"),
        (lambda folder: (folder / "data_batch_5.bin").unlink(), r"data_batch_5\.bin is missing"),
        (lambda folder: (folder / "batches.meta.txt").unlink(), r"meta\.txt is missing"),
        (lambda folder: (folder / "batches.meta.txt").write_text("a\nb"), "holds 2 class names"),
    ],
)
def test_broken_binary(tmp_path: Path, break_it: Callable[[Path], None], message: str) -> None:
    break_it(write_cifar10_binary(tmp_path / "cifar-10-batches-bin"))
    with pytest.raises(DataError, match=message):
        read10(tmp_path)


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ([1], "holds a list"),
        ({"data": pixels(4, 0)}, "no entry 'labels'; it has data"),
        ({"data": pixels(3, 0), "labels": [0] * 4}, r"'data' is uint8 \(3, 3072\)"),
        ({"data": [1], "labels": [0] * 4}, "'data' is None"),
        ({"data": pixels(4, 0).astype(float), "labels": [0] * 4}, "'data' is float64"),
        ({"data": pixels(4, 0), "labels": [0] * 3}, "'labels' is int64"),
        ({"data": pixels(4, 0), "labels": ["a"] * 4}, "'labels' is not a list of whole numbers"),
        ({"data": pixels(4, 0), "labels": [0, 0, -1, 0]}, "of image 2"),
        ({"data": pixels(4, 0), "labels": [[0], [0, 1], [], []]}, "'labels'"),
    ],
)
def test_broken_python(tmp_path: Path, held: object, message: str) -> None:
    folder = write_cifar10_python(tmp_path / "cifar-10-batches-py")
    write_pickle(folder / "data_batch_2", held)
    with pytest.raises(DataError, match=f"data_batch_2.*{message}"):
        read10(tmp_path)


def test_keys_may_be_bytes(tmp_path: Path) -> None:
    folder = write_cifar10_python(tmp_path / "cifar-10-batches-py")
    images, labels = cifar10_batch(2, 4)
    write_pickle(folder / "data_batch_2", {b"data": images, b"labels": labels.tolist()})
    assert len(read_cifar("cifar10", tmp_path, counts=CIFAR10_COUNTS)) == 20


@pytest.mark.parametrize(("fine", "found"), [(1, "several superclasses"), (0, "no image")])
def test_wrong_superclasses(tmp_path: Path, fine: int, found: str) -> None:
    folder = write_cifar100(tmp_path / "cifar-100-binary", binary=True)
    table = np.frombuffer((folder / "train.bin").read_bytes(), dtype=np.uint8).reshape(200, -1)
    table = table.copy()
    if fine:
        table[0, 0] = 19
    else:
        table[table[:, 1] == 5, :2] = (0, 0)
    (folder / "train.bin").write_bytes(table.tobytes())
    with pytest.raises(DataError, match=found):
        read_cifar("cifar100", tmp_path, counts=CIFAR100_COUNTS)
