"""A run folder gives back what was put in, and refuses to trample on anything."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csot.runs import Run, check_findings
from csot.runs.label_studio_tasks import image_address, image_path
from csot.runs.summary import plain

HOSTILE = [
    "</script><script>alert(1)</script>",
    'comma, "quote" and\nnew line',
    "carriage\rreturn",
    "NA",
    "None",
    "007",
    " spaces ",
    "=1+1",
    "\udcff.png",
    "日本語 🐈",
]


def column(values: list[Any]) -> Any:
    """Pandas' own text type refuses what is not Unicode."""
    return pd.Series(values, dtype=object if isinstance(values[0], str) else None)


def make_findings(labels: list[Any], index: Any = None) -> pd.DataFrame:
    """Every other row corrected to the next label."""
    if isinstance(index, list):
        multiple = isinstance(index[0], list)
        index = pd.MultiIndex.from_arrays(index) if multiple else pd.Index(index, dtype=object)
    n = len(labels)
    wrong = np.arange(n) % 2 == 1
    corrected = [labels[(i + 1) % n] if wrong[i] else labels[i] for i in range(n)]
    wrong = np.array([a != b for a, b in zip(labels, corrected, strict=True)])
    frame = pd.DataFrame(
        {
            "given_label": column(labels),
            "predicted_label": column(corrected),
            "corrected_label": column(corrected),
            "is_label_issue": wrong,
            "label_score": np.linspace(0.1, 1 / 3, n),
            "confidence": np.linspace(2 / 3, 1, n),
            "status": np.where(wrong, "corrected", "clean"),
            "note": "",
        }
    )
    return check_findings(frame if index is None else frame.set_axis(index))


def same(a: pd.DataFrame, b: pd.DataFrame) -> None:
    """Equal cells and ids, whatever pandas calls the dtype of text or of nothing."""
    assert list(a.index) == list(b.index)
    assert list(a.columns) == list(b.columns)
    for name in a:
        left, right = a[name].tolist(), b[name].tolist()
        for x, y in zip(left, right, strict=True):
            missing = pd.isna(x) and pd.isna(y)
            assert missing or (x == y and isinstance(x, str) == isinstance(y, str))


@pytest.mark.parametrize("labels", [[3, 1, 2], ["3", "1", "2"], [True, False], [0.5, 1.0], HOSTILE])
@pytest.mark.parametrize("ids", ["integers", "text", "padded"])
def test_findings_come_back_with_their_types(tmp_path: Path, labels: list[Any], ids: str) -> None:
    n = len(labels)
    index = {
        "integers": range(5, 5 + n),
        "text": [HOSTILE[i] for i in range(n)],
        "padded": [f"{i:03d}" for i in range(n)],
    }[ids]
    frame = make_findings(labels, index)
    run = Run.create(tmp_path / "run")
    run.write_findings(frame)
    back = run.read_findings()
    same(frame, back)
    assert back.index.name == "id"
    assert type(back["corrected_label"].tolist()[0]) is type(labels[0])


@pytest.mark.parametrize("labels", [[3, 1, 2, 1], ["c", "a", "b", "a"]])
def test_missing_labels_come_back_missing(tmp_path: Path, labels: list[Any]) -> None:
    frame = make_findings(labels)
    frame["given_label"] = pd.Series(frame["given_label"].tolist()).where([True, True, False, True])
    frame.loc[2, "status"] = "corrected"
    run = Run.create(tmp_path / "run")
    run.write_findings(frame)
    back = run.read_findings()
    same(frame, back)
    assert back["given_label"].isna().tolist() == [False, False, True, False]
    assert back["corrected_label"].tolist() == frame["corrected_label"].tolist()


@pytest.mark.parametrize("labels", [[3, 1, 2], ["x", "y", "z"], [True, False]])
def test_parquet_agrees_with_csv(tmp_path: Path, labels: list[Any]) -> None:
    pytest.importorskip("pyarrow")
    run = Run.create(tmp_path / "run")
    run.write_findings(make_findings(labels))
    table = pd.read_parquet(tmp_path / "run" / "findings.parquet").set_index("id")
    same(table, run.read_findings())


def test_parquet_survives_names_that_are_not_unicode(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    run = Run.create(tmp_path / "run")
    run.write_findings(make_findings(["a", "b"], ["ok", "\udcff"]))
    assert pd.read_parquet(tmp_path / "run" / "findings.parquet")["id"].tolist() == ["ok", "?"]
    assert run.read_findings().index.tolist() == ["ok", "\udcff"]


def test_without_pyarrow_no_stale_parquet_remains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run.create(tmp_path / "run")
    run.write_findings(make_findings(["a", "b"]))
    monkeypatch.setattr("csot.runs.tables.has_parquet", lambda: False)
    run.write_findings(make_findings(["c", "d"]))
    assert not (tmp_path / "run" / "findings.parquet").exists()
    assert run.read_findings()["given_label"].tolist() == ["c", "d"]


CELLS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1)


@settings(max_examples=60, deadline=None)
@given(labels=st.lists(CELLS, min_size=1, max_size=6), texts=st.lists(CELLS, max_size=6))
def test_any_text_survives(
    tmp_path_factory: pytest.TempPathFactory, labels: list[str], texts: list[str]
) -> None:
    run = Run.create(tmp_path_factory.mktemp("run"))
    run.write_findings(make_findings(labels))
    same(make_findings(labels), run.read_findings())
    run.write_samples(pd.DataFrame({"text": texts}))
    back = run.read_samples()
    assert back is not None
    assert back["text"].tolist() == texts


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (["a", "a"], "ids repeat, first 'a'"),
        (["a", None], "an id is missing"),
        (["a", ""], "empty string"),
        ([["a", "a"], ["b", "c"]], "2 levels"),
    ],
)
def test_ids_must_tell_rows_apart(tmp_path: Path, index: Any, message: str) -> None:
    run = Run.create(tmp_path / "run")
    with pytest.raises(ValueError, match=message):
        run.write_findings(make_findings(["a", "b"], index))


def test_samples_round_trip(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    assert run.read_samples() is None
    index = pd.Index([f"{i:02d}" for i in range(len(HOSTILE))], name="id")
    samples = pd.DataFrame({"image": HOSTILE, "text": HOSTILE[::-1]}, index=index, dtype=object)
    run.write_samples(samples)
    back = run.read_samples()
    assert back is not None
    same(samples, back)
    with pytest.raises(ValueError, match="got \\['sound'\\]"):
        run.write_samples(samples.rename(columns={"text": "sound"}))


def test_summary_holds_numpy_and_nothing_that_is_not_json(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    run.write_summary(
        {
            "n_rows": np.int64(3),
            "class_names": np.array(["a", "b"]),
            "noise_rate": np.float32(0.25),
            "noise_matrix": np.eye(2),
            "settings": {1: Path("x"), "nan": float("nan"), "set": {"b", "a"}, "na": pd.NA},
            "history": pd.DataFrame({"round": [1, 2]}),
            "flag": np.bool_(True),
        }
    )
    text = (tmp_path / "run" / "summary.json").read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=lambda name: pytest.fail(name)) == run.read_summary()
    back = run.read_summary()
    assert back["n_rows"] == 3
    assert back["class_names"] == ["a", "b"]
    assert back["noise_matrix"] == [[1.0, 0.0], [0.0, 1.0]]
    assert back["settings"] == {"1": "x", "nan": None, "set": ["a", "b"], "na": None}
    assert back["history"] == [{"round": 1}, {"round": 2}]
    assert back["flag"] is True


def test_a_summary_needs_its_keys(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    with pytest.raises(ValueError, match=r"missing \['class_names'\]"):
        run.write_summary({"n_rows": 3})
    with pytest.raises(ValueError, match="plain data, got object"):
        plain({"x": object()})
    (tmp_path / "run" / "summary.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="is not JSON"):
        run.read_summary()


def test_probabilities_are_mapped(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    assert run.read_probabilities() is None
    posterior = np.random.default_rng(0).dirichlet(np.ones(4), 10)
    run.write_probabilities(posterior)
    back = run.read_probabilities()
    assert isinstance(back, np.memmap)
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, posterior.astype(np.float32))
    with pytest.raises(ValueError, match="must be"):
        run.write_probabilities(posterior[0])


def test_corrected_keeps_the_users_table(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    table = pd.DataFrame(
        {"label": ["x", "y", "z"], "corrected_label": ["old", "old", "old"], "size": [1.5, 2, 3]}
    )
    before = table.copy()
    found = make_findings(["x", "y"])  # row 2 was skipped
    run.write_corrected(table, found, label_column="label")
    pd.testing.assert_frame_equal(table, before)
    back = pd.read_csv(tmp_path / "run" / "corrected.csv")
    assert list(back.columns) == ["label", "previous_corrected_label", "size", "corrected_label"]
    assert back["corrected_label"].tolist() == ["x", "x", "z"]
    assert back["size"].tolist() == [1.5, 2, 3]
    run.write_corrected(table, found)
    assert pd.read_csv(tmp_path / "run" / "corrected.csv")["corrected_label"].isna().tolist() == [
        False,
        False,
        True,
    ]
    with pytest.raises(ValueError, match="same index"):
        run.write_corrected(table.set_axis([7, 8, 9]), found)
    with pytest.raises(ValueError, match="no column 'labell'"):
        run.write_corrected(table, found, label_column="labell")


def test_corrected_integers_stay_integers(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    run.write_corrected(pd.DataFrame({"a": [1, 2, 3]}), make_findings([4, 5]))
    lines = (tmp_path / "run" / "corrected.csv").read_text(encoding="utf-8").splitlines()
    assert lines == ["a,corrected_label", "1,4", "2,4", "3,"]


@pytest.mark.parametrize("medium", ["image", "text", "row"])
def test_label_studio_tasks(tmp_path: Path, medium: str) -> None:
    run = Run.create(tmp_path / "run")
    found = make_findings(['<b> & "c"', "dog"], ["one", "two"])
    samples = None if medium == "row" else pd.DataFrame({medium: ["a b.png", "c"]}, found.index)
    rows = pd.DataFrame({"width": [1, 2]}, found.index)
    photos = tmp_path / "photos"
    run.write_label_studio(found, samples, rows, class_names=["dog", "unseen"], image_root=photos)
    tasks = json.loads((tmp_path / "run" / "label_studio.json").read_text(encoding="utf-8"))
    shown = {"image": "/data/local-files/?d=photos/a%20b.png", "text": "a b.png", "row": "width: 1"}
    assert [task["data"]["sample_id"] for task in tasks] == ["two", "one"], "worst first"
    assert tasks[1]["data"][medium] == shown[medium]
    prediction = tasks[0]["predictions"][0]
    assert set(prediction) == {"model_version", "score", "result"}
    assert prediction["score"] == found["confidence"].iloc[1]
    assert prediction["result"] == [
        {
            "from_name": "label",
            "to_name": medium,
            "type": "choices",
            "value": {"choices": ['<b> & "c"']},
        }
    ]
    config = ET.parse(tmp_path / "run" / "label_studio.xml").getroot()
    names = [choice.get("value") for choice in config.iter("Choice")]
    assert names == ["dog", "unseen", '<b> & "c"']
    run.write_label_studio(found, samples, only_flagged=True)
    tasks = json.loads((tmp_path / "run" / "label_studio.json").read_text(encoding="utf-8"))
    assert [task["data"]["sample_id"] for task in tasks] == ["two"]


def test_addresses_of_images_start_from_the_parent_of_their_folder(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for path, name in (
        ("cat/1 ä.png", "photos/cat/1%20%C3%A4.png"),
        (str(tmp_path / "other" / "2.png"), "other/2.png"),
        ("/elsewhere/3.png", "/elsewhere/3.png"),
    ):
        address = image_address(path, photos)
        assert address == f"/data/local-files/?d={name}"
        assert image_path(address, photos) == str(photos / path)
    assert image_address("", photos) == ""
    assert image_path("https://host/1.png", photos) is None


def finish(run: Run, source: dict[str, str]) -> None:
    run.write_findings(make_findings(["a", "b"]))
    run.write_summary({"n_rows": 2, "class_names": ["a", "b"], "source": source})


def test_findings_of_an_older_version_have_empty_reasons(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    finish(run, {"path": "one"})
    table = pd.read_csv(run.path / "findings.csv", dtype=str, keep_default_na=False)
    table.drop(columns="reason").to_csv(run.path / "findings.csv", index=False)
    assert run.read_findings()["reason"].tolist() == ["", ""]


def test_create_protects_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine", encoding="utf-8")
    for force in (False, True):
        with pytest.raises(ValueError, match="is not a run"):
            Run.create(tmp_path, force)
    with pytest.raises(ValueError, match="is a file"):
        Run.create(tmp_path / "thesis.tex")
    path = tmp_path / "deep" / "run"
    finish(Run.create(path), {"path": "one"})
    (path / "cache.npy").write_bytes(b"cache")
    for source in (None, {"path": "two"}):
        with pytest.raises(ValueError, match="other data"):
            Run.create(path, source=source)
    assert Run.create(path, source={"path": "one"}).read_findings().shape == (2, 9)
    (path / ".findings.csv.0123.partial").write_bytes(b"left by a killed process")
    Run.create(path, force=True, source={"path": "two"})
    assert sorted(file.name for file in path.iterdir()) == ["cache.npy", "run.json"]
    Run.create(path)  # unfinished: go on


@pytest.mark.parametrize("root", ["\ud800", "a\0b"])
def test_a_root_that_cannot_be_a_folder_is_refused(tmp_path: Path, root: str) -> None:
    run = Run.create(tmp_path / "run")
    finish(run, {"root": root})
    with pytest.raises(ValueError, match=r"summary\.json is damaged: its source\.root"):
        _ = Run.open(run.path).image_root


def test_open_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        Run.open(tmp_path / "run")
    with pytest.raises(ValueError, match=r"is not a run: it has no run\.json"):
        Run.open(tmp_path)
    run = Run.create(tmp_path / "run")
    with pytest.raises(ValueError, match=r"no findings\.csv and no summary\.json"):
        Run.open(run.path)
    finish(run, {"root": str(tmp_path)})
    assert Run.open(run.path) == run
    assert run.image_root == tmp_path
    with pytest.raises(ValueError, match="is a file"):
        Run.open(run.path / "summary.json")
    (run.path / "run.json").write_text('{"format": 99}', encoding="utf-8")
    with pytest.raises(ValueError, match="format 99"):
        Run.open(run.path)
