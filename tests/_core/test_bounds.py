"""Small files that used to take gigabytes or minutes are refused at once, and the bound is said."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from csot._core import files
from csot._core.errors import FileError
from csot._core.files import read_json
from csot._core.pictures import fault
from csot.data import Columns, DataError, read_data
from csot.data.datasets.cifar import read_names
from csot.data.datasets.core.restricted_pickle import read_pickle, read_torch_zip
from csot.data.labels import checked_class_numbers
from csot.nets.weights import read_safetensors, read_torch
from csot.training.config import parse_yaml
from csot.training.presets import read_preset
from fuzz.cases import peak, reset_peak
from report.sample_runs import rows_run

MEMORY = 300 << 20
"""Bytes that a refusal may take."""


def refused(read: Callable[[], object], message: str, kind: type[Exception] = ValueError) -> None:
    reset_peak()
    before = peak()
    with pytest.raises(kind, match=message):
        read()
    assert peak() - before < MEMORY


SAME_HASH = [number * (2**61 - 1) for number in range(1, 60_000)]
"""Python hashes integers modulo this prime, so a dict of these takes minutes."""


def pickled(number: int) -> bytes:
    return pickle.dumps(number, 2)[2:-1]


NESTED = b"\x80\x02]q\x00" + b"".join(
    b"](" + b"h" + bytes([level]) + (b"h" + bytes([level])) * 9 + b"eq" + bytes([level + 1])
    for level in range(12)
)
PICKLES = {
    "memo": (b"\x80\x02]r\x00\x00\x00\x0c.", None),
    "shared": (NESTED + b".", "more than 2,500,000 values"),
    "itself": (b"\x80\x02]q\x00h\x00a.", "more than 32 levels"),
    "deep": (b"\x80\x02)" + b"\x85" * 100_000 + b".", "more than 32 levels"),
    "deep key": (b"\x80\x02})" + b"\x85" * 500_000 + b"Ns.", "keys are not text"),
    "same hash": (
        b"\x80\x02}(" + b"".join(pickled(number) + b"N" for number in SAME_HASH) + b"u.",
        "key beyond",
    ),
    "same hash in the memo": (
        b"\x80\x02N" + b"".join(b"p%d\n" % number for number in SAME_HASH) + b".",
        "memory of more than",
    ),
    "long": (b"\x80\x02" + b"N0" * 2_000_000 + b"N.", "more than 2,500,000 values"),
}


@pytest.mark.parametrize("name", PICKLES)
def test_pickles(tmp_path: Path, name: str) -> None:
    content, message = PICKLES[name]
    (tmp_path / "x").write_bytes(content)
    if message is None:
        reset_peak()
        before = peak()
        assert read_pickle(tmp_path / "x") == []
        assert peak() - before < MEMORY
    else:
        refused(lambda: read_pickle(tmp_path / "x"), f"x is cut, or .*{message}", DataError)


def test_an_array_is_not_made_twice_from_the_same_bytes(tmp_path: Path) -> None:
    """The content is in the file once, and every array refers to it."""
    content = bytes(10_000)
    kind = b"cnumpy\ndtype\nU\x02u1\x85R"
    state = b"(K\x01M\x10\x27\x85" + kind + b"\x89h\x01tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n)R" + state
    head = b"\x80\x02](T" + len(content).to_bytes(4, "little") + content + b"q\x01"
    (tmp_path / "x").write_bytes(head + array + b"e.")
    assert len(read_pickle(tmp_path / "x")[1]) == 10_000
    (tmp_path / "x").write_bytes(head + array * 9 + b"e.")
    with pytest.raises(DataError, match="more bytes than the file"):
        read_pickle(tmp_path / "x")


def test_texts_are_not_made_into_one_large_array(tmp_path: Path) -> None:
    texts = ["a"] * 100_000 + ["b" * 100_000]
    refused(
        lambda: checked_class_numbers(texts, 100_001, 10, tmp_path / "x", "labels"), "whole numbers"
    )


def test_class_names_are_a_short_file(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_bytes(b"a\n" * 600_000)
    with pytest.raises(FileError, match="at most 1,048,576"):
        read_names(tmp_path / "names.txt", "", 10)


def zeros_in_a_zip(path: Path, member: str, size: int) -> Path:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(member, "w", force_zip64=True) as file,
    ):
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    return path


def test_zip_bombs(tmp_path: Path) -> None:
    path = zeros_in_a_zip(tmp_path / "x.pt", "archive/data.pkl", 300 << 20)
    assert path.stat().st_size < 2 << 20
    message = r"x\.pt has .* would unpack to 314,572,800; at most 268,435,456"
    refused(lambda: read_torch_zip(path), message, DataError)
    refused(lambda: read_torch(path), message, FileError)
    path.rename(tmp_path / "x.npz")
    refused(lambda: read_data(tmp_path / "x.npz"), "would unpack", DataError)


def test_torch_files(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save({"a": torch.zeros(1).expand(10**9)}, path)
    refused(lambda: read_torch(path), "more bytes than the file", FileError)
    shared: list[Any] = []
    for _ in range(30):
        shared = [shared, shared]
    torch.save({"a": shared}, path)
    refused(lambda: read_torch(path), "more than 2,000,000 values", FileError)
    torch.save(dict.fromkeys(SAME_HASH[:2_000]), path)
    refused(lambda: read_torch(path), "more than 1,000 long integers", FileError)
    torch.save(dict.fromkeys(SAME_HASH[:2_000]), path, _use_new_zipfile_serialization=False)
    refused(lambda: read_torch(path, legacy=True), "more than 1,000 long integers", FileError)
    (tmp_path / "x.safetensors").write_bytes((50 << 20).to_bytes(8, "little") + b"{}")
    refused(lambda: read_safetensors(tmp_path / "x.safetensors"), "header of 52,428,800", FileError)


LAUGHS = "a0: &a0 [x, x]\n" + "\n".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "more than 200,000 values"),
        ("a: &a [*a]", "more than 200,000 values"),
        ("[" * 60, "more than 50 levels"),
        ("- a\n" * 110_000, "more than 50 levels or 100,000 values"),
        ("a: 1" + ":59" * 9000, "a value of 27,"),
        ("a: 1" + ":59" * 6000, "a number of 18,001 characters"),
        ("a: " + "9" * 5000, "a number of 5,000 characters"),
        ("{" + ", ".join(f"{key}: 1" for key in SAME_HASH[:30_000]) + "}", "a number of 19"),
        ("#" * (2 << 20), "at most 1,048,576"),
    ],
    ids=[
        *("laughs", "itself", "deep", "many", "sexagesimal", "beyond printing", "digits"),
        *("same hash", "long"),
    ],
)
def test_yaml(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    refused(lambda: read_preset(str(path)), rf"p\.yaml.*{message}")


def test_random_states_and_names_in_all_scripts_are_read(tmp_path: Path) -> None:
    """Bytes of Chinese text can look like long integers."""
    held = {"names": ["\u4e2d\u538a\u628a" * 500] * 4, "state": [2**127 + 1] * 4}
    torch.save(held, tmp_path / "x.pt")
    assert read_torch(tmp_path / "x.pt") == held


def test_honest_aliases_are_read() -> None:
    same = ["a", "b"]
    text = yaml.safe_dump({"x": same, "y": same})
    assert "*id001" in text
    assert parse_yaml(text, "here") == {"x": same, "y": same}


def png(side: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def test_pixels_are_counted_before_they_are_decoded(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(png(13_000))
    reset_peak()
    before = peak()
    assert "13000 x 13000 pixels: more than 80 million" in str(fault(tmp_path / "x.png"))
    assert peak() - before < MEMORY


def test_transparency_takes_no_second_copy(tmp_path: Path) -> None:
    """80 million transparent pixels in 300 KB took 1.3 GB; the copy without them is needed."""
    image = pytest.importorskip("PIL.Image")
    image.new("RGBA", (5_000, 4_000)).save(tmp_path / "x.png", compress_level=1)
    reset_peak()
    before = peak()
    assert fault(tmp_path / "x.png") is None
    assert peak() - before < 2.5 * 4 * 5_000 * 4_000


def test_scans_of_a_jpeg_are_counted(tmp_path: Path) -> None:
    """Each scan of a progressive JPEG goes over all pixels, and takes a few bytes."""
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "x.jpg"
    image.new("L", (64, 64), 77).save(path, progressive=True, exif=b"Exif\0\0" + b"\xff\xda" * 200)
    assert fault(path) is None
    content = path.read_bytes()
    last = content[content.rindex(b"\xff\xda") : -2]
    path.write_bytes(content[:-2] + last * 100 + content[-2:])
    assert "more than 100 scans" in str(fault(path))


def test_a_large_photo_is_still_read(tmp_path: Path) -> None:
    """A JPEG decodes to a fraction of its size, so that a hundred million pixels are few."""
    image = pytest.importorskip("PIL.Image")
    image.new("L", (11_000, 10_000)).save(tmp_path / "x.jpg")
    assert fault(tmp_path / "x.jpg") is None


def test_programs_are_not_started_for_a_picture(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EOF\n")
    assert "cannot identify" in str(fault(tmp_path / "x.png"))


def test_pipes_and_devices_are_not_read(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "x.png")
    os.mkfifo(tmp_path / "t.csv")
    os.symlink("/dev/zero", tmp_path / "z.npz")
    assert fault(tmp_path / "x.png") == "not a file"
    for name in ("z.npz", "t.csv"):
        with pytest.raises(DataError, match=rf"{name}.*(is not a file|are not read)"):
            read_data(tmp_path / name)


def test_parquet_of_equal_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"label": ["a", "b"] * 500_000, "x": 0.0})
    frame.to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(files, "FLOOR", 1 << 20)
    with pytest.raises(DataError, match=r"t\.parquet has .* would unpack to 16,000,000"):
        read_data(tmp_path / "t.parquet", Columns(label="label"))


def test_wide_tables(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",".join(f"c{n}" for n in range(60_000)) + "\n")
    refused(lambda: read_data(tmp_path / "t.csv", Columns(label="c1")), "more than 50,000 columns")


def test_elements_without_bytes(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "|S0", "fortran_order": False, "shape": (10**12,)}
    )
    np.save(tmp_path / "features.npy", np.eye(4))
    np.save(tmp_path / "labels.npy", np.array([0, 1, 0, 1]))
    (tmp_path / "class_names.npy").write_bytes(buffer.getvalue())
    refused(lambda: read_data(tmp_path), r"class_names\.npy.*elements of the type", DataError)


def test_many_reviewers(tmp_path: Path) -> None:
    from csot.review.domain.decision_log import LogEntry, Store
    from csot.review.domain.session import Session

    run = rows_run(tmp_path, 50, 3)
    store = Store(run.path)
    store.append([LogEntry("b", f"r{n}", "1", "unsure", None, "grid") for n in range(1001)])
    store.close()
    with pytest.raises(ValueError, match=r"decisions\.sqlite names more than 1,000 reviewers"):
        Session(run, "ana")


def test_deep_json(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[" * 200_000)
    with pytest.raises(FileError, match=r"x\.json is not JSON \(it is nested too deeply\)"):
        read_json(tmp_path / "x.json", 1 << 20)
    (tmp_path / "x.json").write_text(json.dumps("x" * 2000))
    with pytest.raises(FileError, match="has 2,002 bytes; at most 1,024 are read"):
        read_json(tmp_path / "x.json", 1 << 10)
