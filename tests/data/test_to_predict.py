"""Forms that data comes in: Hugging Face folders, frames, JSON lines, packed files."""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from csot._core.pictures import fault
from csot.data import Columns, DataError, DataWarning, read_data
from image_files import write_image

LABELS = ["cat", "dog"] * 3
NUMBERS = [0.5, 1.5, 2.0, 2.5, 3.5, 4.0]


def hugging_face(folder: Path, **columns: list[object]) -> Path:
    names = [f"{row}.png" for row in range(6)]
    for name in names:
        write_image(folder / name)
    pd.DataFrame({"file_name": names, **columns}).to_csv(folder / "metadata.csv", index=False)
    return folder


@pytest.mark.parametrize("extra", [{}, {"caption": list("uvwxyz")}])
def test_a_hugging_face_folder(tmp_path: Path, extra: dict[str, list[object]]) -> None:
    data = read_data(hugging_face(tmp_path / "pets", label=LABELS, **extra))
    assert data.labels.tolist() == LABELS
    assert data.ids == [f"{row}.png" for row in range(6)]
    assert data.images == [tmp_path / "pets" / key for key in data.ids]


def test_the_label_of_a_hugging_face_folder_may_be_named(tmp_path: Path) -> None:
    folder = hugging_face(tmp_path, animal=LABELS, caption=list("uvwxyz"))
    assert read_data(folder, Columns(label="animal")).labels.tolist() == LABELS
    with pytest.raises(DataError, match="no sub-folders"):
        read_data(folder)


def test_class_folders_with_metadata_of_no_label(tmp_path: Path) -> None:
    for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"):
        write_image(tmp_path / name)
    frame = pd.DataFrame({"file_name": ["cat/1.png"], "caption": ["x"], "width": [3]})
    frame.to_csv(tmp_path / "metadata.csv", index=False)
    assert read_data(tmp_path).labels.tolist() == ["cat", "cat", "dog", "dog"]


def test_json_lines(tmp_path: Path) -> None:
    rows = [
        {"label": label, "a": number, "e": [number, 1.0]}
        for label, number in zip(LABELS, NUMBERS, strict=True)
    ]
    del rows[3]["a"]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    data = read_data(path, Columns(label="label"))
    assert data.labels.tolist() == LABELS
    assert data.features is not None
    assert data.features[3].tolist() == [2.0, 1.0, 2.5, 1.0], "median, flag, embedding"
    alone = read_data(path, Columns(label="label", features=["e"]))
    assert alone.features is not None
    assert alone.features[:, 0].tolist() == NUMBERS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}\n{"a": ', "line 2: not JSON"),
        ("[1, 2]\n", "line 1: an object with a key per column"),
        ("\n\n", "no rows"),
        ("[" * 100_000, "line 1: not JSON"),
    ],
)
def test_broken_json_lines(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(DataError, match=message):
        read_data(tmp_path / "t.jsonl", Columns(label="label"))


def test_packed_files_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"label,a\n")
        for _ in range(300):
            file.write(b"x,1\n" * (1 << 18))
    with pytest.raises(DataError, match="would unpack to"):
        read_data(path, Columns(label="label"))
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(DataError, match="not a readable"):
        read_data(path, Columns(label="label"))


def test_embeddings_in_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rows = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    frame = pd.DataFrame({"vector": list(rows), "label": LABELS})
    frame.to_parquet(tmp_path / "t.parquet")
    data = read_data(tmp_path / "t.parquet", Columns(label="label"))
    assert data.uses == "uses vector (embedding)"
    np.testing.assert_array_equal(data.features, rows)
    frame.loc[2, "vector"] = None
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="in row 2, no list"):
        read_data(tmp_path / "t.parquet", Columns(label="label", features=["vector"]))


def test_a_data_frame() -> None:
    frame = pd.DataFrame({"a": NUMBERS, "kind": LABELS, 7: [1, 1, 1, 2, 2, 2]})
    data = read_data(frame, Columns(label="kind"))
    assert (data.ids, data.feature_columns) == ([str(row) for row in range(6)], ["a", "7"])
    assert list(frame.columns) == ["a", "kind", 7], "nothing is written back"
    named = read_data(frame.set_index(pd.Index(list("uvwxyz"))), Columns(label="kind"))
    assert named.ids == list("uvwxyz")
    assert named.feature_columns == ["a", "7"]
    other = frame.set_index(pd.Index([3, 3, 4, 5, 6, 7], name="key"))
    with pytest.raises(DataError, match="id '3' twice"):
        read_data(other, Columns(label="kind"))
    with pytest.raises(DataError, match="name its label column with `label`"):
        read_data(frame)
    with pytest.raises(DataError, match="has no rows"):
        read_data(frame.iloc[:0], Columns(label="kind"))


def test_a_data_set_of_hugging_face(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
    )
    held = {"text": list("abcdef"), "label": [0, 1, 0, 1, 0, -1]}
    source = datasets.Dataset.from_dict(held, features=features)
    data = read_data(source, Columns(text="text"))
    assert data.labels.tolist() == ["neg", "pos", "neg", "pos", "neg", None]
    assert data.texts == list("abcdef")
    with pytest.raises(DataError, match=r"splits .train.; pass one"):
        read_data(datasets.DatasetDict({"train": source}), Columns(text="text"))
    paths = [str(write_image(tmp_path / f"{row}.png")) for row in range(4)]
    source = datasets.Dataset.from_dict({"image": paths, "kind": ["a", "b"] * 2})
    source = source.cast_column("image", datasets.Image())
    data = read_data(source, Columns(label="kind"), root=tmp_path)
    assert data.images == [Path(path) for path in paths]


def test_label_variants(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": NUMBERS, "kind": ["Cat", "cat", "hot dog", "Hot  Dog", "cat", "x"]})
    with (
        pytest.warns(DataWarning, match=r"2 class.*'cat' = 'Cat'.*`merge_variants` makes them one"),
        pytest.warns(DataWarning, match="one row only"),
    ):
        data = read_data(frame, Columns(label="kind"))
    assert len(set(data.labels)) == 5
    with pytest.warns(DataWarning, match="one row only"):
        merged = read_data(frame, Columns(label="kind"), merge_variants=True)
    assert merged.labels.tolist() == ["cat", "cat", "Hot  Dog", "Hot  Dog", "cat", "x"]
    assert merged.table is not None
    assert merged.table["kind"].tolist() == frame["kind"].tolist(), "the table stays as it is"


def test_variants_of_votes() -> None:
    frame = pd.DataFrame(
        {
            "sample": [1, 1, 1, 2, 2, 2],
            "who": list("uvw") * 2,
            "kind": ["cat", "Cat", "dog", "dog", "dog", "cat"],
            "a": NUMBERS,
        }
    )
    columns = Columns(label="kind", id="sample", annotator="who")
    data = read_data(frame, columns, merge_variants=True)
    assert data.votes is not None
    assert data.votes["label"].tolist() == ["cat", "cat", "dog", "dog", "dog", "cat"]
    assert data.labels.tolist() == ["cat", "dog"]


@pytest.mark.parametrize("size", [(20_000, 20_000), (10_000, 9_000)])
def test_a_picture_over_the_bound(tmp_path: Path, size: tuple[int, int]) -> None:
    image = Image.new("1", size)
    image.save(tmp_path / "large.png")
    found = fault(tmp_path / "large.png")
    assert found is not None
    assert "more than 80 million are not decoded" in found
    assert "attack" not in found
