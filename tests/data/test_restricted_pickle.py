"""A pickle is read only as far as it holds data."""

import codecs
import os
import pickle
from collections import OrderedDict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from csot.data import DataError
from csot.data.datasets.core.restricted_pickle import read_pickle, read_torch_zip
from source_files import write_pickle, write_torch_zip


class Runs:
    """Unpickling it calls `function`."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


PLAIN = {
    "data": np.arange(12, dtype=np.uint8).reshape(3, 4),
    "labels": [1, 2.5, None, True],
    b"bytes": b"\xff\x00",
    "names": ("a", "é"),
    "nested": {"scalar": np.int64(7), "big": np.arange(3.0), "flags": np.array([True])},
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_is_read(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(pickle.dumps(PLAIN, protocol=protocol))
    if protocol == 5:
        # Its way to write arrays is one more function, which no official file uses.
        with pytest.raises(DataError, match="_frombuffer"):
            read_pickle(path)
        return
    found = read_pickle(path)
    assert np.array_equal(found["data"], PLAIN["data"])
    assert found["labels"] == PLAIN["labels"]
    assert found["names"] == PLAIN["names"]
    assert found[b"bytes"] == b"\xff\x00"
    assert found["nested"]["scalar"] == 7
    assert np.array_equal(found["nested"]["big"], np.arange(3.0))


def test_text_of_python_2_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x80\x02}q\x00U\x04dataU\x03abcs.")
    assert read_pickle(tmp_path / "x") == {"data": "abc"}


def test_arrays_of_python_2_are_read(tmp_path: Path) -> None:
    """The official files: raw bytes as an old string, above 127 too."""
    (tmp_path / "x").write_bytes(
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n"
        b"cnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x02K\x02\x86"
        b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89U\x04\x00\x7f\x80\xfftb."
    )
    found = read_pickle(tmp_path / "x")
    assert found.dtype == np.uint8
    assert found.tolist() == [[0, 127], [128, 255]]


@pytest.mark.parametrize("write", [write_pickle, write_torch_zip])
@pytest.mark.parametrize("form", ["system", "open", "eval", "mkdir"])
def test_hostile_files_do_nothing(tmp_path: Path, write: Any, form: str) -> None:
    target = tmp_path / "made"
    hostile = {
        "system": Runs(os.system, f"touch {target}"),
        "open": Runs(open, str(target), "w"),
        "eval": Runs(eval, f"open({str(target)!r}, 'w')"),
        "mkdir": Runs(os.mkdir, str(target)),
    }[form]
    path = write(tmp_path / "x", {"data": [1, hostile]})
    # The file is hostile indeed.
    if form == "mkdir" and write is write_pickle:
        pickle.loads(path.read_bytes())
        assert target.exists()
        target.rmdir()
    read = read_pickle if write is write_pickle else read_torch_zip
    with pytest.raises(DataError, match="can run code"):
        read(path)
    assert not target.exists()


@pytest.mark.parametrize(
    "held",
    [
        date(2020, 1, 1),
        OrderedDict(a=1),
        np.load,
        {1, 2},
        Runs(codecs.encode, "x", "zlib_codec"),
        Runs(bytes, 10**12),
        Runs(np.frombuffer, b"abc", "u1"),
        np.array([{}], dtype=object),
        np.array(["text"]),
        np.zeros(2, dtype=[("x", "f4"), ("o", "O")]),
        np.ndarray,
    ],
    ids=[
        *("date", "ordered", "function", "set", "codec", "bytes", "frombuffer"),
        *("objects", "texts", "records", "type"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, held: Any) -> None:
    with pytest.raises(DataError):
        read_pickle(write_pickle(tmp_path / "x", held))


STATES = {
    "dtype": b"cnumpy\ndtype\n}U\x01aU\x01bsb.",
    "encode": b"c_codecs\nencode\nN}U\x04nameU\x01xs\x86b.",
    "reconstruct": b"cnumpy.core.multiarray\n_reconstruct\nN}U\x05arrayU\x01xs\x86b.",
    "object type": b"cnumpy\ndtype\nU\x02u1\x85R(K\x03U\x01|U\x01ONNtb.",
    "memory": (
        b"cnumpy.core.multiarray\n_reconstruct\n)R(K\x01K\x09\x85"
        b"cnumpy\ndtype\nU\x02u1\x85R\x89U\x01atb."
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_no_state_is_believed(tmp_path: Path, name: str) -> None:
    (tmp_path / "x").write_bytes(b"\x80\x02" + STATES[name])
    with pytest.raises(DataError):
        read_pickle(tmp_path / "x")
    # Nothing was altered by the attempt.
    (tmp_path / "y").write_bytes(pickle.dumps(PLAIN, protocol=2))
    assert np.array_equal(read_pickle(tmp_path / "y")["data"], PLAIN["data"])


def test_orders_of_bytes_and_axes(tmp_path: Path) -> None:
    held = {
        "big": np.arange(6, dtype=">i4").reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "empty": np.zeros((0, 3), dtype=np.int64),
        "flags": np.array([True, False]),
    }
    found = read_pickle(write_pickle(tmp_path / "x", held))
    for name, array in held.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x02}q\x00U\x04da", b"\x80\x02Q."])
def test_broken_pickles_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(DataError, match=r"x is"):
        read_pickle(tmp_path / "x")


def test_what_torch_saves(tmp_path: Path) -> None:
    path = tmp_path / "labels.pt"
    torch.save({"clean_label": np.arange(3), "coarse": [1, 2]}, path)
    found = read_torch_zip(path)
    assert found["clean_label"].tolist() == [0, 1, 2]
    assert found["coarse"] == [1, 2]
    torch.save({"clean_label": torch.arange(3)}, path)
    with pytest.raises(DataError, match=r"outside of the pickle|_rebuild_tensor"):
        read_torch_zip(path)


def test_broken_zips_are_named(tmp_path: Path) -> None:
    path = write_torch_zip(tmp_path / "x.pt", {"a": [1] * 100})
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DataError, match=r"x\.pt is not a file of torch\.save"):
        read_torch_zip(path)
    np.savez(tmp_path / "y.npz", a=1)
    with pytest.raises(DataError, match=r"no single data\.pkl"):
        read_torch_zip(tmp_path / "y.npz")


def test_a_file_of_absurd_size_is_refused(tmp_path: Path) -> None:
    with open(tmp_path / "x", "wb") as file:
        file.truncate(3 << 30)  # sparse: it takes no room
    with pytest.raises(DataError, match=r"3,221,225,472 bytes; at most 536,870,912 are read"):
        read_pickle(tmp_path / "x")
