"""Decisions fed back."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from csot.data import DataError, DataWarning, LabelledData, all_votes, read_data, read_verified
from image_files import write_image


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


def test_several_files_are_merged(tmp_path: Path) -> None:
    review, sheet = tmp_path / "review.csv", tmp_path / "sheet.csv"
    review.write_text("id,label\n2,10\n0,3\n")
    sheet.write_text("id,verified_label\n0,3\n1,\n3,10\n")
    merged = read_verified([review, str(sheet), review], data(tmp_path))
    assert merged.tolist() == [3, None, 10, 10]


def test_files_that_contradict_each_other(tmp_path: Path) -> None:
    review, sheet = tmp_path / "review.csv", tmp_path / "sheet.csv"
    review.write_text("id,label\n2,10\n0,3\n")
    sheet.write_text("id,verified_label\n0,10\n")
    message = r"id '0' has two verified labels: 3 in .*review\.csv and 10 in .*sheet\.csv"
    with pytest.raises(DataError, match=message):
        read_verified([review, sheet], data(tmp_path))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"does not exist \(`verified`\)"):
        read_verified(tmp_path / "none.csv", data(tmp_path))


@pytest.fixture
def photos(tmp_path: Path) -> LabelledData:
    """The folder of the exports in `label_studio/`, which Label Studio 1.23.2 wrote."""
    classes = ("two & more", "drei ä", "one")
    for number in range(12):
        write_image(tmp_path / "my photos" / classes[number % 3] / f"image {number}.png")
    return read_data(tmp_path / "my photos")


@pytest.mark.parametrize("name", ["export.json", "export-min.json", "export.csv", "export.tsv"])
def test_exports_of_label_studio(photos: LabelledData, name: str) -> None:
    """Of twelve tasks three have an annotation, and one was skipped."""
    path = Path(__file__).parent / "label_studio" / name
    verified = dict(zip(photos.ids, read_verified(path, photos), strict=True))
    assert {key: label for key, label in verified.items() if label is not None} == {
        "drei ä/image 4.png": "drei ä",
        "drei ä/image 10.png": "two & more",
        "two & more/image 9.png": "one",
    }
    votes = all_votes(photos, path)
    assert votes is not None
    assert Counter(votes["annotator"]) == {"given": 12, "1": 3}


def task(sample: object, *labels: list[str], **more: object) -> dict[str, object]:
    annotations = [
        {"result": [{"value": {"choices": chosen}}], "completed_by": {"email": f"{place}@x.org"}}
        for place, chosen in enumerate(labels)
    ]
    return {"annotations": annotations, "data": {"sample_id": sample}, **more}


def test_annotators_of_label_studio_are_votes(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_text(json.dumps([task("0", ["3"], ["10"]), task("1", ["10"], ["10"])]))
    found = data(tmp_path)
    votes = all_votes(found, path)
    assert votes is not None
    assert set(votes["annotator"]) == {"given", "0@x.org", "1@x.org"}
    assert votes["label"].tolist()[4:] == [3, 10, 10, 10]
    with pytest.raises(DataError, match=r"'0' has two verified labels, .* as `votes`"):
        read_verified(path, found)


def test_other_controls_of_a_label_studio_project(tmp_path: Path) -> None:
    choices = [("quality", ["blurred", "dark"]), ("label", ["10"]), ("quality", ["3"])]
    result = [{"from_name": name, "value": {"choices": chosen}} for name, chosen in choices]
    one = {"annotations": [{"result": result}], "data": {"sample_id": "0"}}
    (tmp_path / "v.json").write_text(json.dumps([one]))
    found = data(tmp_path)
    verified = dict(zip(found.ids, read_verified(tmp_path / "v.json", found), strict=True))
    assert {key: label for key, label in verified.items() if label is not None} == {"0": 10}


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ({"id": 1}, "is not a list of Label Studio's tasks: export the project"),
        ([task(None, ["3"])], r"task 0 \(from 0\) has no sample_id: export the project"),
        ([task("0", ["3", "10"])], "'0' has the labels .*: keep one"),
        ([task("0", ["7"])], "the verified label '7' of id '0' is not a class"),
        ([task("0")], r"no annotation \(`verified`\): submit some"),
        ([{"data": {"sample_id": "0"}}], "has no sample_id"),
    ],
)
def test_unusable_exports(tmp_path: Path, tasks: object, message: str) -> None:
    path = tmp_path / "v.json"
    path.write_text(json.dumps(tasks))
    with pytest.raises(DataError, match=message):
        read_verified(path, data(tmp_path))
