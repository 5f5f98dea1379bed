"""`clean_dataset`: the same run from a path, a table and arrays; and what a run can do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import csot
from csot.clean import CleanRun, clean_dataset
from csot.cli.app import app
from csot.data import DataError
from small_data import blobs

pytestmark = pytest.mark.usefixtures("remembered_fits")


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> CleanRun:
    folder = tmp_path_factory.mktemp("dataset")
    features, labels = blobs()
    np.savez(folder / "d.npz", features=features, labels=labels)
    return clean_dataset(folder / "d.npz", folder / "run")


def test_a_run_says_what_was_found(run: CleanRun) -> None:
    assert run.findings["is_label_issue"].sum() >= 5
    assert run.summary["n_rows"] == 120
    assert run.report().exists()
    assert run.cleaner.predict(blobs()[0][:4]).tolist() == ["ape", "bee", "ape", "bee"]


def test_arrays_in_memory_are_judged_like_files(run: CleanRun, tmp_path: Path) -> None:
    features, labels = blobs()
    other = clean_dataset(features, tmp_path / "run", labels=labels)
    pd.testing.assert_frame_equal(other.findings, run.findings)


def test_a_frame_needs_no_file_and_no_folder(tmp_path: Path) -> None:
    features, labels = blobs()
    frame = pd.DataFrame(features, columns=list("abcd")).assign(kind=labels)
    run = clean_dataset(frame, label="kind")
    assert run.findings["is_label_issue"].sum() >= 5
    kept = run.save(tmp_path / "kept")
    pd.testing.assert_frame_equal(kept.findings, run.findings)
    with pytest.raises(ValueError, match="choose another"):
        run.save(tmp_path / "kept")


def test_other_data_in_memory_is_refused(tmp_path: Path) -> None:
    features, labels = blobs()
    clean_dataset(features, tmp_path / "run", labels=labels)
    with pytest.raises(ValueError, match="other data"):
        clean_dataset(features + 1, tmp_path / "run", labels=labels)


def test_new_data_is_predicted_by_the_cleaner(run: CleanRun, tmp_path: Path) -> None:
    features, labels = blobs()
    np.savez(tmp_path / "new.npz", features=features[6:], labels=labels[6:])
    predicted = run.predict(tmp_path / "new.npz")
    assert predicted.class_names == ["ape", "bee"]
    np.testing.assert_allclose(
        predicted.probabilities, run.cleaner.predict_proba(features[6:]), rtol=1e-6
    )
    assert predicted.accuracy == 1.0
    result = CliRunner().invoke(
        app, ["predict", str(run.path), str(tmp_path / "new.npz"), "-o", str(tmp_path / "p.csv")]
    )
    assert result.exit_code == 0, result.output
    assert "by the cleaner" in result.output
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table) == ["id", "predicted_label", "confidence", "prob_ape", "prob_bee"]
    np.savez(tmp_path / "other.npz", features=features[:, :2])
    with pytest.raises(DataError, match="fitted to 4"):
        run.predict(tmp_path / "other.npz")


def test_arrays_in_memory_are_judged_by_a_run(run: CleanRun, tmp_path: Path) -> None:
    features, labels = blobs()
    judged = clean_dataset(
        features[:20], tmp_path / "judged", labels=labels[:20], judge_with=run.path
    )
    assert judged.findings["is_label_issue"].sum() >= 5
    frame = pd.DataFrame(features, columns=list("abcd")).assign(kind=labels)
    with pytest.raises(DataError, match="holds columns of a table, but"):
        clean_dataset(frame, tmp_path / "other", label="kind", judge_with=run.path)


def test_what_a_notebook_shows(run: CleanRun) -> None:
    page = run._repr_html_()
    assert f"{run.summary['n_issues']} of 120 labels look wrong" in page
    assert page.count("<tr") == 1 + 5, "a header and the worst rows"
    assert f"<td>{run.findings['label_score'].idxmin()}</td>" in page
    assert (
        repr(run)
        == f"CleanRun({str(run.path)!r}: {run.summary['n_issues']} of 120 labels look wrong)"
    )


def test_a_table_in_memory_is_predicted_as_its_file(tmp_path: Path) -> None:
    features, labels = blobs()
    frame = pd.DataFrame(features, columns=list("abcd")).assign(kind=labels)
    run = clean_dataset(frame, tmp_path / "run", label="kind")
    frame.to_csv(tmp_path / "new.csv", index=False)
    from_file = run.predict(tmp_path / "new.csv")
    in_memory = run.predict(frame)
    np.testing.assert_allclose(in_memory.probabilities, from_file.probabilities, rtol=1e-6)
    assert in_memory.accuracy == from_file.accuracy
    assert run.predict(frame.drop(columns="kind")).accuracy is None


def test_progress_is_reported(tmp_path: Path) -> None:
    features, labels = blobs()
    seen: list[tuple[str, int, int]] = []
    clean_dataset(
        features, tmp_path / "run", labels=labels, progress=lambda *step: seen.append(step)
    )
    assert seen[0] == ("Cleaning (noise matrix)", 0, 7)


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        ("nowhere", {}, "does not exist"),
        ("nowhere", {"labels": [0]}, "`labels` goes with an array"),
        (np.zeros(3), {"labels": [0, 1, 0]}, "(N, D)"),
        (np.zeros((3, 2)), {}, "clean_dataset(features, labels=labels)"),
        ((np.zeros((3, 2)), [0, 1, 0]), {}, "clean_dataset(features, labels=labels)"),
        (np.zeros((3, 2)), {"labels": [0, 1]}, "features has 3 rows"),
        (blobs()[0], {"labels": blobs()[1], "label": "kind"}, "have no columns"),
        (pd.DataFrame({"a": [1.0, 2.0]}), {"labels": [0, 1]}, "name the column by `label`"),
        (blobs()[0], {"labels": blobs()[1], "class_prior": {"ape": 1.0}}, "lacks the classes bee"),
        (blobs()[0], {"labels": blobs()[1], "class_prior": "flat"}, "'uniform'"),
    ],
)
def test_bad_input(data: object, options: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        csot.clean_dataset(data, tmp_path / "run", **options)  # type: ignore[arg-type]
    assert words in str(error.value)


def test_labels_in_the_place_of_the_folder() -> None:
    with pytest.raises(DataError, match=r"`out` is the folder of the run, got ndarray; labels"):
        csot.clean_dataset(*blobs())  # type: ignore[arg-type]
