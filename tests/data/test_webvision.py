"""mini-WebVision in its layouts, an image or two of each."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from csot.data import DataError, DataWarning
from csot.data.datasets.core.dataset_registry import read_training_data
from csot.data.datasets.webvision import WebVisionCounts, read_webvision
from csot.data.types import DatasetRequest, TrainingData
from source_files import write_webvision

COUNTS = WebVisionCounts(train=3, val=2, imagenet=50)


def read(root: Path) -> TrainingData:
    return read_webvision(DatasetRequest(root, image_size=32), COUNTS)


@pytest.mark.parametrize("inside", ["", "webvision"])
def test_only_the_first_fifty_classes(tmp_path: Path, inside: str) -> None:
    root = write_webvision(tmp_path / inside)
    data = read(tmp_path)
    assert data.ids == ["google/q0001/a.jpg", "google/q0001/b.jpg", "google/q0050/c.jpg"]
    assert data.labels.tolist() == [0, 0, 49]
    assert data.class_names == [str(c) for c in range(50)]
    assert data.true_labels is None
    assert [test.name for test in data.tests] == ["webvision", "ilsvrc12"]
    assert data.tests[0].labels.tolist() == [49, 0]
    assert data.tests[1].labels.tolist() == list(range(50))
    assert data.train.batch(torch.tensor([2])).shape == (1, 3, 32, 32)
    assert data.root == root
    assert data.images is not None
    assert data.images[0] == root / data.ids[0]
    assert data.source["root"] == str(root.resolve())


def test_synsets_give_names_and_order(tmp_path: Path) -> None:
    data = read(write_webvision(tmp_path, synsets=True))
    assert data.class_names[:2] == ["animal 0", "animal 1"]
    # The first class has the last folder: the list says the order, not the alphabet.
    first = data.tests[1].samples.batch(torch.tensor([0, 49]))
    assert float(first[0, 0].float().mean()) < float(first[1, 0].float().mean())


def test_paths_may_start_below_google(tmp_path: Path) -> None:
    root = write_webvision(tmp_path)
    listing = root / "info" / "train_filelist_google.txt"
    listing.write_text(listing.read_text().replace("google/", ""))
    assert read(root).ids[0] == "google/q0001/a.jpg"


def test_other_counts_are_a_warning(tmp_path: Path) -> None:
    root = write_webvision(tmp_path)
    with pytest.warns(DataWarning) as caught:
        data = read_training_data("webvision", data_dir=root)
    texts = [str(warning.message) for warning in caught]
    assert "training: 3 images, where the official number is 65,944" in texts[0]
    assert len(texts) == 3
    assert data.train.shape == (3, 320, 320)


def test_without_ilsvrc12_there_is_one_test(tmp_path: Path) -> None:
    root = write_webvision(tmp_path)
    (root / "imagenet").rename(root / "elsewhere")
    with pytest.warns(DataWarning, match="imagenet/val/"):
        data = read(root)
    assert [test.name for test in data.tests] == ["webvision"]


def change(name: str, old: str, new: str) -> Callable[[Path], object]:
    def edit(root: Path) -> None:
        path = root / "info" / name
        path.write_text(path.read_text().replace(old, new))

    return edit


TRAIN, VAL = "train_filelist_google.txt", "val_filelist.txt"


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda root: (root / "info" / TRAIN).unlink(), f"needs .*{TRAIN}, which is not there"),
        (lambda root: (root / "info" / VAL).write_text(""), f"{VAL} is empty"),
        (lambda root: (root / "info" / VAL).write_bytes(b"\xff\xfe 1"), "not UTF-8"),
        (change(TRAIN, "b.jpg 0", "b.jpg"), "line 2: 'google/q0001/b.jpg' is not a path and"),
        (change(TRAIN, "b.jpg 0", "b.jpg 1000"), "line 2: the label 1000; there are 1000"),
        (change(TRAIN, "b.jpg", "z.jpg"), rf"{TRAIN} names .*z\.jpg, which is not there"),
        (lambda root: (root / "info" / VAL).write_text("a.jpg 70"), "no image of the classes"),
        (
            lambda root: (root / "val_images_256" / "val2.jpg").unlink(),
            r"val2\.jpg, which is not there",
        ),
        (
            lambda root: (root / "imagenet" / "val" / "3").rename(root / "imagenet" / "3"),
            "has no folder 3",
        ),
        (
            lambda root: (root / "imagenet" / "val" / "0").rename(root / "imagenet" / "0"),
            r"need .*synsets\.txt",
        ),
        (lambda root: (root / "info" / "synsets.txt").write_text("n1 a"), "1 lines"),
    ],
)
def test_broken(tmp_path: Path, break_it: Callable[[Path], object], message: str) -> None:
    root = write_webvision(tmp_path)
    break_it(root)
    with pytest.raises(DataError, match=message):
        read(root)


def test_folders_without_images(tmp_path: Path) -> None:
    root = write_webvision(tmp_path)
    for path in (root / "imagenet").rglob("*.JPEG"):
        path.unlink()
    with pytest.raises(DataError, match="holds no images"):
        read(root)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train_filelist_google\.txt.*webvision/dataset2017"):
        read(tmp_path)


def test_repeated_names_give_way_to_synsets(tmp_path: Path) -> None:
    root = write_webvision(tmp_path, synsets=True)
    path = root / "info" / "synsets.txt"
    path.write_text(path.read_text().replace("animal 1,", "animal 0,"))
    assert read(root).class_names[0] == "n00000900"
