"""Features and labels as NumPy files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from csot.data import DataError, read_data


def arrays(**changes: Any) -> dict[str, Any]:
    held = {
        "features": np.arange(12, dtype=np.float32).reshape(4, 3),
        "labels": np.array([0, 1, 0, 1]),
    } | changes
    return {name: value for name, value in held.items() if value is not None}


def write(path: Path, **changes: Any) -> Path:
    np.savez(path, **arrays(**changes))
    return path


def test_npz(tmp_path: Path) -> None:
    data = read_data(write(tmp_path / "d.npz", ids=np.array(["p", "q", "r", "s"])))
    assert data.kind == "arrays"
    assert data.ids == ["p", "q", "r", "s"]
    assert data.labels.tolist() == [0, 1, 0, 1]
    assert data.features is not None
    assert data.features.dtype == np.float32


def test_class_names_name_the_numbers(tmp_path: Path) -> None:
    names = np.array(["dog", "cat", "bird"])
    probs = np.full((4, 3), 1 / 3)
    data = read_data(write(tmp_path / "d.npz", class_names=names, pred_probs=probs))
    assert data.labels.tolist() == ["dog", "cat", "dog", "cat"]
    assert data.class_names == ["dog", "cat", "bird"]
    labels = np.array(["cat", "", "dog", "cat", "dog"])
    features, probs = np.eye(5), np.full((5, 3), 1 / 3)
    held = {"class_names": names, "labels": labels, "features": features, "pred_probs": probs}
    data = read_data(write(tmp_path / "e.npz", **held))
    assert data.labels.tolist() == ["cat", None, "dog", "cat", "dog"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": None, "label": np.arange(4)}, "no array 'labels'; .*did you mean 'label'"),
        ({"features": None}, "no array 'features'"),
        ({"labels": np.array([0, 1, 0])}, r"labels has shape \(3,\), but features has 4 rows"),
        ({"ids": np.array(["a", "a", "b", "c"])}, "id 'a' twice"),
        ({"features": np.zeros((4, 2, 2))}, r"reshape\(len\(x\), -1\)"),
        ({"features": np.zeros((0, 2))}, r"shape \(0, 2\)"),
        ({"features": np.array([[0.0], [1.0], [np.nan], [0]])}, "nan in row 2 .*column 0"),
        ({"features": np.array([["a"]] * 4)}, "real numbers are needed"),
        ({"labels": np.zeros(4, int)}, "one class"),
        ({"pred_probs": np.ones((4, 3))}, r"shape \(4, 3\); \(4, 2\) is needed"),
        ({"class_names": np.array(["a"])}, "label 1 in row 1"),
        ({"class_names": np.array(["a", "a"])}, "'a' twice"),
        ({"labels": np.array(["a", None, "a", "b"], dtype=object)}, r"save labels\.astype\(str\)"),
    ],
)
def test_unusable_arrays(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_data(write(tmp_path / "d.npz", **changes))


def test_no_archive(tmp_path: Path) -> None:
    (tmp_path / "d.npz").write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"not a readable \.npz"):
        read_data(tmp_path / "d.npz")
    np.save(tmp_path / "one.npy", np.zeros(3))
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    with pytest.raises(DataError, match="single array"):
        read_data(tmp_path / "one.npz")


def test_folder_of_arrays_is_memory_mapped(tmp_path: Path) -> None:
    for name, array in arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    data = read_data(tmp_path)
    assert isinstance(data.features, np.memmap)
    assert data.labels.tolist() == [0, 1, 0, 1]
    (tmp_path / "labels.npy").unlink()
    with pytest.raises(DataError, match="no array 'labels'"):
        read_data(tmp_path)


def test_whole_numbers_are_features(tmp_path: Path) -> None:
    data = read_data(write(tmp_path / "d.npz", features=np.eye(4, dtype=np.uint8)))
    assert data.features is not None
    assert data.features.dtype == np.float32
