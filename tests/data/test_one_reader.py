"""Cleaning, training and predicting read the same data in the same way."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from csot.data import Columns, DataError, DataWarning, read_data
from csot.data.datasets.core.dataset_registry import read_training_data
from csot.data.readers.to_predict import Wanted, read_inputs
from image_files import write_image

N = 8
FEATURES = np.random.default_rng(0).normal(size=(N, 3))
LABELS = np.array(["a", "b"] * (N // 2))
KIND = Columns(label="kind")
Read = Callable[[Path, Columns | None], tuple[list[str], list[str | None], object]]


def cleaning(path: Path, columns: Columns | None) -> tuple[list[str], list[str | None], object]:
    data = read_data(path, columns)
    labels = [None if label is None else str(label) for label in data.labels]
    return data.ids, labels, data.images if data.features is None else data.features


def training(path: Path, columns: Columns | None) -> tuple[list[str], list[str | None], object]:
    data = read_training_data(path, columns=columns)
    names = [data.class_names[label] if label >= 0 else None for label in data.labels.tolist()]
    features = data.train.batch(torch.arange(len(data))).numpy()
    return data.ids, names, data.images if data.images is not None else features


def predicting(path: Path, columns: Columns | None) -> tuple[list[str], list[str | None], object]:
    images = path.is_dir() and not list(path.glob("*.npy"))
    wanted = Wanted("images" if images else "features", (3, 8, 8) if images else (3,), ["a", "b"])
    found = read_inputs(path, wanted, columns=columns)
    assert found.labels is not None
    names = [["a", "b"][label] if label >= 0 else None for label in found.labels.tolist()]
    if images:
        return found.ids, names, [path / key for key in found.ids]
    return found.ids, names, found.samples.batch(torch.arange(len(found.ids))).numpy()


READERS: list[Read] = [cleaning, training, predicting]


def images(folder: Path) -> tuple[Path, None]:
    for name in ("a/1.png", "a/more/2.png", "b/1.png", "b/2.png"):
        write_image(folder / "pets" / name, size=(8, 8))
    for name in ("__MACOSX/a/1.png", ".hidden/1.png", "a/._1.png", "b/__MACOSX/x.png"):
        write_image(folder / "pets" / name, size=(8, 8))
    return folder / "pets", None


def npz(folder: Path) -> tuple[Path, None]:
    np.savez(folder / "d.npz", features=FEATURES, labels=LABELS)
    return folder / "d.npz", None


def x_and_y(folder: Path) -> tuple[Path, None]:
    np.savez(folder / "d.npz", X=FEATURES, y=LABELS)
    return folder / "d.npz", None


def npy(folder: Path) -> tuple[Path, None]:
    np.save(folder / "X.npy", FEATURES)
    np.save(folder / "y.npy", LABELS)
    return folder, None


def table(folder: Path, name: str) -> tuple[Path, Columns]:
    frame = pd.DataFrame(FEATURES, columns=["p", "q", "r"]).assign(kind=LABELS)
    path = folder / name
    if ".csv" in name:
        frame.to_csv(path, index=False)
    elif ".jsonl" in name:
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    else:
        frame.to_parquet(path)
    return path, KIND


FORMS = {
    "images": images,
    "npz": npz,
    "X and y": x_and_y,
    "npy": npy,
    "csv": lambda folder: table(folder, "t.csv"),
    "csv.gz": lambda folder: table(folder, "t.csv.gz"),
    "jsonl": lambda folder: table(folder, "t.jsonl"),
    "jsonl.gz": lambda folder: table(folder, "t.jsonl.gz"),
    "parquet": lambda folder: table(folder, "t.parquet"),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_three_agree(tmp_path: Path, form: str) -> None:
    path, columns = FORMS[form](tmp_path)
    expected = cleaning(path, columns)
    assert len(expected[0]) == (4 if form == "images" else N)
    for read in READERS[1:]:
        ids, labels, samples = read(path, columns)
        assert (ids, labels) == expected[:2], read.__name__
        if form == "images":
            assert samples == expected[2]
        else:
            np.testing.assert_allclose(samples, expected[2], rtol=1e-6)  # float32


@pytest.mark.parametrize("read", READERS[1:])
def test_networks_are_not_shown_infinity(tmp_path: Path, read: Read) -> None:
    np.savez(tmp_path / "d.npz", features=FEATURES * 1e300, labels=LABELS)
    with pytest.raises(DataError, match="too large for float32"):
        read(tmp_path / "d.npz", None)


@pytest.mark.parametrize("read", READERS)
def test_the_same_errors(tmp_path: Path, read: Read) -> None:
    np.savez(tmp_path / "d.npz", features=FEATURES, labels=LABELS[:3])
    with pytest.raises(DataError, match=r"labels has shape \(3,\), but features has 8 rows"):
        read(tmp_path / "d.npz", None)
    np.savez(tmp_path / "e.npz", features=FEATURES, X=FEATURES, labels=LABELS)
    with pytest.raises(DataError, match="the same array under two names"):
        read(tmp_path / "e.npz", None)
    with pytest.raises(DataError, match="is not a table: `label`"):
        read(tmp_path / "d.npz", KIND)
    (tmp_path / "t.xlsx").write_text("x")
    with pytest.raises(DataError, match=r"'\.xlsx' are not read"):
        read(tmp_path / "t.xlsx", None)


@pytest.mark.parametrize("read", [training, predicting])
def test_what_is_skipped_is_told(tmp_path: Path, read: Read) -> None:
    path, _ = images(tmp_path)
    (path / "a" / "phone.HEIC").write_bytes(b"x")
    with pytest.warns(DataWarning, match=r"1 left out, first a/phone\.HEIC .*\.heic are not read"):
        read(path, None)
    skipped = read_data(path).skipped
    assert [one.id for one in skipped] == ["a/phone.HEIC"]


def test_mixed_tables_are_trained_on_and_predicted(tmp_path: Path) -> None:
    """The test table and new rows are prepared as the training table was."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "p": [*rng.normal(size=39), None],
            "city": rng.choice(["Rome", "Oslo"], 40),
            "kind": ["a", "b"] * 20,
        }
    )
    frame.to_csv(tmp_path / "train.csv", index=False)
    frame.iloc[:4].assign(city="Bern").to_csv(tmp_path / "test.csv", index=False)
    data = read_training_data(tmp_path / "train.csv", columns=KIND, test=tmp_path / "test.csv")
    assert data.train.shape == (4,)
    assert data.table_features is not None
    held = data.tests[0].samples.batch(torch.arange(4))
    assert held[:, 2:].tolist() == [[0, 0]] * 4, "a city that training did not know"
    torch.testing.assert_close(held[:, :2], data.train.batch(torch.arange(4))[:, :2])
    wanted = Wanted("features", (4,), ["a", "b"], data.table_features)
    found = read_inputs(tmp_path / "test.csv", wanted, columns=KIND)
    torch.testing.assert_close(found.samples.batch(torch.arange(4)), held)
