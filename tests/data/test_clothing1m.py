"""Clothing1M in its layout, an image or two of each split."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from csot.data import DataError, DataWarning
from csot.data.datasets.clothing1m import Clothing1MCounts, read_clothing1m
from csot.data.datasets.core.dataset_registry import read_training_data
from csot.data.types import DatasetRequest, TrainingData
from source_files import write_clothing1m

COUNTS = Clothing1MCounts(train=4, test=2, val=1)


def read(root: Path) -> TrainingData:
    return read_clothing1m(DatasetRequest(root, image_size=16), COUNTS)


@pytest.mark.parametrize("prefix", ["images/", ""])
@pytest.mark.parametrize("inside", ["", "clothing1m"])
def test_lists_and_labels(tmp_path: Path, prefix: str, inside: str) -> None:
    root = write_clothing1m(tmp_path / inside, prefix)
    data = read(tmp_path)
    assert data.ids[1] == "images/0/01/1,1.jpg"
    assert data.labels.tolist() == [13, 12, 11, 10]
    assert data.class_names[13] == "cloth 13"
    assert [test.name for test in data.tests] == ["clean_test", "clean_val"]
    assert [test.labels.tolist() for test in data.tests] == [[1, 2], [0]]
    assert data.images is not None
    assert data.images[1] == root / f"{prefix}0/01/1,1.jpg"
    assert data.train.batch(torch.tensor([0])).shape == (1, 3, 16, 16)


def test_the_lists_may_lie_in_annotations(tmp_path: Path) -> None:
    root = write_clothing1m(tmp_path)
    (root / "annotations").mkdir()
    for path in root.glob("*.txt"):
        path.rename(root / "annotations" / path.name)
    assert len(read(root)) == 4


def test_other_counts_are_a_warning(tmp_path: Path) -> None:
    with pytest.warns(DataWarning) as caught:
        data = read_training_data("clothing1m", data_dir=write_clothing1m(tmp_path))
    assert "4 images, where the official number is 1,000,000" in str(caught[0].message)
    assert len(caught) == 3
    assert data.train.shape == (3, 256, 256)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda root: (root / "clean_test_key_list.txt").unlink(), r"clean_test_key_list\.txt"),
        (lambda root: (root / "noisy_label_kv.txt").unlink(), r"needs .*noisy_label_kv\.txt"),
        (lambda root: (root / "category_names_eng.txt").write_text("a\nb"), "2 names; 14"),
        (
            lambda root: (root / "clean_label_kv.txt").write_text("images/2/t.jpg 3"),
            r"line 2: 'images/2/u\.jpg' has no label",
        ),
        (
            lambda root: (root / "clean_label_kv.txt").write_text("images/2/t.jpg 14"),
            "label 14; there are 14 classes",
        ),
        (
            lambda root: (root / "clean_test_key_list.txt").write_text("images/2/t.jpg\n" * 2),
            "an image twice",
        ),
        (lambda root: (root / "images/0/02/2,1.jpg").unlink(), r"2,1\.jpg, which is not there"),
    ],
)
def test_broken(tmp_path: Path, break_it: Callable[[Path], object], message: str) -> None:
    root = write_clothing1m(tmp_path)
    break_it(root)
    with pytest.raises(DataError, match=message):
        read(root)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"noisy_train_key_list\.txt.*on request"):
        read(tmp_path)
