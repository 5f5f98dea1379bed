"""The user's own data for training."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from csot.data import Columns, DataError, DataWarning, MissingExtraError
from csot.data.datasets.core.dataset_registry import read_training_data
from image_files import write_image


def classes(root: Path, each: int = 2, size: tuple[int, int] = (12, 10)) -> Path:
    for value, name in enumerate(("cat", "dog")):
        for number in range(each):
            write_image(root / name / f"{number}.png", 100 * value + number, size)
    return root


def arrays(**changed: object) -> dict[str, object]:
    rng = np.random.default_rng(0)
    return {
        "train": rng.normal(size=(6, 3)).astype(np.float16),
        "train_labels": np.array([0, 1, 2, 0, 1, 2], dtype=np.uint8),
        "test": rng.normal(size=(4, 3)).astype(np.float16),
        "test_labels": np.array([2, 1, 0, 0], dtype=np.uint8),
        "class_names": np.array(["a", "b", "c"]),
        **changed,
    }


def test_a_folder_of_classes(tmp_path: Path) -> None:
    root = classes(tmp_path / "pets")
    data = read_training_data(root)
    assert (data.name, data.class_names, data.tests) == ("pets", ["cat", "dog"], [])
    assert data.labels.tolist() == [0, 0, 1, 1]
    assert data.ids == ["cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"]
    assert data.train.shape == (3, 10, 10)
    assert data.true_labels is None
    assert data.mean == (0.485, 0.456, 0.406)
    assert data.images == [root / key for key in data.ids]
    where = str(root.resolve())
    assert data.source == {"kind": "images", "path": where, "root": where}
    assert read_training_data(str(root), image_size=6).train.shape == (3, 6, 6)


def test_without_pillow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingExtraError, match=r"csot\[train\]"):
        read_training_data(classes(tmp_path))


def test_photographs_are_made_smaller(tmp_path: Path) -> None:
    root = classes(tmp_path, size=(400, 300))
    assert read_training_data(root).train.shape == (3, 224, 224)


@pytest.mark.parametrize("name", ["test", "val", "Validation"])
def test_split_folders(tmp_path: Path, name: str) -> None:
    classes(tmp_path / "train")
    classes(tmp_path / name, each=3)
    data = read_training_data(tmp_path)
    assert data.ids[0] == "cat/0.png"
    assert data.root == tmp_path / "train"
    assert [test.name for test in data.tests] == [name.lower()]
    assert data.tests[0].labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.tests[0].samples.shape == data.train.shape


def test_the_test_folder_comes_before_val(tmp_path: Path) -> None:
    for name in ("val", "test", "train"):
        classes(tmp_path / name)
    assert [test.name for test in read_training_data(tmp_path).tests] == ["test", "val"]
    data = read_training_data(tmp_path, test=classes(tmp_path / "other", each=5))
    assert [len(test.labels) for test in data.tests] == [10]


def test_train_may_be_a_class(tmp_path: Path) -> None:
    root = classes(tmp_path)
    write_image(root / "train" / "steam.png")
    write_image(root / "train" / "diesel.png")
    assert read_training_data(root).class_names == ["cat", "dog", "train"]


def test_a_test_class_that_training_lacks(tmp_path: Path) -> None:
    classes(tmp_path / "train")
    other = classes(tmp_path / "other")
    (other / "cat").rename(other / "dogs")
    with pytest.raises(DataError, match=r"'dogs' .*is not a class of the training.*mean 'dog'"):
        read_training_data(tmp_path / "train", test=other)


def test_broken_images_are_told(tmp_path: Path) -> None:
    root = classes(tmp_path)
    (root / "cat" / "x.png").write_text("none")
    with pytest.warns(DataWarning, match=r"1 left out, first cat/x\.png"):
        assert len(read_training_data(root)) == 4


def test_a_table_of_images(tmp_path: Path) -> None:
    classes(tmp_path / "pets")
    (tmp_path / "t.csv").write_text(
        "id,file,kind\n1,cat/0.png,cat\n2,dog/0.png,dog\n3,cat/1.png,\n4,cat/1.png,cat\n"
        "5,dog/1.png,dog\n"
    )
    columns = Columns(label="kind", image="file")
    table = tmp_path / "t.csv"
    with pytest.warns(DataWarning, match="1 test rows have no label"):
        data = read_training_data(table, columns=columns, root=tmp_path / "pets", test=table)
    assert data.name == "t"
    assert data.labels.tolist() == [0, 1, -1, 0, 1]
    assert data.ids == ["1", "2", "3", "4", "5"]
    assert data.tests[0].labels.tolist() == [0, 1, 0, 1]
    assert data.root == tmp_path / "pets"
    expected = data.train.batch(torch.tensor([3]))
    assert torch.equal(data.tests[0].samples.batch(torch.tensor([2])), expected)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_of_numbers(tmp_path: Path, ending: str) -> None:
    import pandas as pd

    table = pd.DataFrame({"x": [1.0, 2, 3, 4], "y": [0.5, 1, 0, 2], "label": list("abab")})
    train, test = tmp_path / f"train.{ending}", tmp_path / f"test.{ending}"
    for path, held in ((train, table), (test, table.assign(extra=1.0))):
        if ending == "csv":
            held.to_csv(path, index=False)
        else:
            held.to_parquet(path)
    data = read_training_data(train, columns=Columns(label="label"), test=test)
    assert data.train.kind == "features"
    assert data.mean is None
    assert data.tests[0].samples.shape == (2,)
    assert data.train.batch(torch.tensor([1])).tolist() == [[2.0, 1.0]]


def test_texts_are_not_trained_on(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,label\na,x\nb,y\nc,x\nd,y\n")
    with pytest.raises(DataError, match="trained on as features"):
        read_training_data(tmp_path / "t.csv", columns=Columns(label="label", text="text"))


def test_columns_need_a_table(tmp_path: Path) -> None:
    for path in (classes(tmp_path / "pets"), tmp_path / "a.npz"):
        if path.suffix:
            np.savez(path, **arrays())
        with pytest.raises(DataError, match="is not a table"):
            read_training_data(path, columns=Columns(label="label"))


@pytest.mark.parametrize("folder", [False, True])
def test_arrays_with_a_test_part(tmp_path: Path, folder: bool) -> None:
    held = arrays()
    path = tmp_path / ("embedded" if folder else "embedded.npz")
    if folder:
        path.mkdir()
        for name, array in held.items():
            np.save(path / f"{name}.npy", array)
    else:
        np.savez(path, **held)
    data = read_training_data(path)
    assert data.name == "embedded"
    assert data.class_names == ["a", "b", "c"]
    assert data.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert data.true_labels is None
    batch = data.train.batch(torch.arange(6))
    assert batch.dtype == torch.float32
    np.testing.assert_array_equal(batch, held["train"])
    assert data.tests[0].labels.tolist() == [2, 1, 0, 0]
    assert data.source["kind"] == "arrays"


def test_true_labels_and_plain_names(tmp_path: Path) -> None:
    held = arrays()
    np.savez(
        tmp_path / "a.npz",
        features=held["train"],
        labels=np.array(["x", "y", "x", "", "y", "y"]),
        true_labels=np.array(["x", "x", "x", "y", "y", "y"]),
        test_features=held["test"],
        test_labels=np.array(["y"] * 4),
    )
    data = read_training_data(tmp_path / "a.npz")
    assert data.labels.tolist() == [0, 1, 0, -1, 1, 1]
    assert data.true_labels is not None
    assert data.true_labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.tests[0].labels.tolist() == [1] * 4
    np.savez(tmp_path / "b.npz", features=held["train"], labels=np.array(list("xyxyxy")))
    data = read_training_data(tmp_path / "a.npz", test=tmp_path / "b.npz")
    assert data.tests[0].labels.tolist() == [0, 1] * 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"test_labels": np.array([0, 1])}, r"test_labels has shape \(2,\); \(4,\)"),
        ({"test_labels": np.array([0, 1, 2, 3])}, "neither a name nor a number"),
        ({"test_labels": np.array([-1, -1, -1, -1])}, "-1|no test row"),
        ({"test": np.zeros((4, 2))}, "test_features has 2 columns, features has 3"),
        ({"test": np.full((4, 3), np.nan)}, "test_features holds nan"),
        ({"features": np.zeros((6, 3))}, "under two names"),
        ({"true_labels": np.zeros(5, dtype=int)}, r"true_labels has shape \(5,\)"),
        ({"train": np.full((6, 3), 1e300)}, "too large for float32"),
        ({"train_labels": np.zeros(2, dtype=int)}, "labels has shape"),
    ],
)
def test_broken_arrays(tmp_path: Path, changed: dict[str, object], message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays(**changed))
    with pytest.raises(DataError, match=message):
        read_training_data(tmp_path / "a.npz")


def test_half_a_test_set(tmp_path: Path) -> None:
    held = arrays()
    del held["test_labels"]
    np.savez(tmp_path / "a.npz", **held)
    with pytest.raises(DataError, match="has test_features, but a test set is"):
        read_training_data(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", train=held["train"])
    with pytest.raises(DataError, match="has no array 'labels'; it holds train"):
        read_training_data(tmp_path / "b.npz")


def test_limit_without_true_labels(tmp_path: Path) -> None:
    data = read_training_data(classes(tmp_path, each=5), limit=4)
    assert data.labels.tolist() == [0, 0, 1, 1]
    assert data.images is not None
    assert len(data.images) == 4
