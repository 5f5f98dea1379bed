"""Decisions fed back."""

from pathlib import Path

import numpy as np
import pytest

from csot.data import DataError, DataWarning, LabelledData, read_data, read_verified


def data(tmp_path: Path) -> LabelledData:
    np.savez(tmp_path / "d.npz", features=np.eye(4), labels=np.array([3, 10, 3, 10]))
    return read_data(tmp_path / "d.npz")


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "verified.csv"
    path.write_text(text)
    return path


def test_labels_get_the_type_of_the_data(tmp_path: Path) -> None:
    path = write(tmp_path, "id,label,when\n2,10,now\n0,3,now\n1,,now\n")
    assert read_verified(path, data(tmp_path)).tolist() == [3, None, 10, None]


def test_unknown_ids_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path, "id,label\n0,3\nx,3\ny,3\n")
    with pytest.warns(DataWarning, match="2 of 3 verified ids are not in the data; first 'x'"):
        assert read_verified(path, data(tmp_path)).tolist() == [3, None, None, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,Label\n0,3\n", "no column 'label' .*did you mean 'Label'"),
        ("id,label\nx,3\ny,3\n", "none of its 2 ids is in the data; first 'x'"),
        ("id,label\n0,11\n", "verified label '11' of id '0' is not a class"),
        ("id,label\n0,3\n0,10\n", "id '0' has two verified labels"),
        ("id,label\n", "no rows"),
        ("", "is empty"),
    ],
)
def test_unusable_files(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=message):
        read_verified(path, data(tmp_path))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"does not exist \(`verified`\)"):
        read_verified(tmp_path / "none.csv", data(tmp_path))
