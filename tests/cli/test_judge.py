"""`csot clean NEW --with RUN`, on real files and with the real cleaner."""

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from typer.testing import CliRunner, Result

from csot.cli.app import app
from csot.runs import Run
from csot.runs.source import clean_again

OLD, NEW = slice(0, 400), slice(400, 600)
EMBEDDER = """
import numpy as np
from PIL import Image
def embed(paths):
    return np.stack([np.asarray(Image.open(path), np.float32).ravel() for path in paths])
"""


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["clean", *map(str, arguments)], env={"COLUMNS": "200"})


def succeed(*arguments: object) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: object) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert len(result.stderr.strip().splitlines()) == 1
    return result.stderr


class Files:
    """Digits 0 to 4, a fifth labelled wrong, as arrays and as a table, and the runs on them."""

    def __init__(self, folder: Path) -> None:
        digits = load_digits(n_class=5)
        rng = np.random.default_rng(0)
        self.truth = digits.target
        wrong = (self.truth + rng.integers(1, 5, len(self.truth))) % 5
        self.labels = np.where(rng.random(len(self.truth)) < 0.2, wrong, self.truth)
        self.folder, self.images = folder, digits.images
        self.table = pd.DataFrame(digits.data[:, 8:40]).rename(columns=lambda k: f"p{k}")
        self.table["kind"] = [f"d{label}" for label in self.labels]
        self.table["code"] = [f"n{row}" for row in range(len(self.table))]
        for name, rows in (("old", OLD), ("new", NEW)):
            np.savez(folder / name, features=digits.data[rows], labels=self.labels[rows])
            self.table[rows].to_csv(folder / f"{name}.csv", index=False)
        succeed(folder / "old.npz", "--out", folder / "arrays")
        succeed(folder / "old.csv", "--label", "kind", "--id", "code", "--out", folder / "table")

    def check(self, run: Path, prefix: str = "") -> pd.DataFrame:
        """Complete, and it found most of what is wrong."""
        found = Run.open(run).read_findings()
        given = [f"{prefix}{k}" if prefix else k for k in self.labels[NEW]]
        truth = np.array([f"{prefix}{k}" if prefix else k for k in self.truth[NEW]], dtype=object)
        assert found["given_label"].tolist() == given
        assert (found["corrected_label"].to_numpy(dtype=object) == truth).mean() > 0.9
        assert {"report.html", "corrected.csv", "label_studio.json"} <= {
            path.name for path in run.iterdir()
        }
        assert not (run / "cleaner.npz").exists()
        return found


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


def test_arrays(files: Files, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shown = succeed(files.folder / "new.npz", "--with", files.folder / "arrays", "--out", out)
    assert f"Judged with {files.folder / 'arrays'}" in shown
    assert f"--with {files.folder / 'arrays'} --verified" in shown
    files.check(out)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["judged_with"] == str((files.folder / "arrays").resolve())
    assert summary["n_rows"] == 200
    again = shlex.split(clean_again(Run.open(out), tmp_path / "verified.csv"))
    assert again[-2:] == ["--verified", str(tmp_path / "verified.csv")]
    assert again[again.index("--with") + 1] == str(files.folder / "arrays")
    message = refused(files.folder / "new.npz", "--with", out, "--out", tmp_path / "other")
    assert f"it was judged with another run: --with {files.folder / 'arrays'}" in message


def test_a_table_by_the_units_of_the_first(files: Files, tmp_path: Path) -> None:
    """Columns in another order and row by row: the scale is that of the old rows."""
    run = files.folder / "table"
    succeed(files.folder / "new.csv", "--with", run, "--out", tmp_path / "all")
    found = files.check(tmp_path / "all", "d")
    assert found.index.tolist() == [f"n{row}" for row in range(400, 600)]
    turned = files.table[NEW].iloc[:1, ::-1]
    turned.to_csv(tmp_path / "one.csv", index=False)
    succeed(tmp_path / "one.csv", "--with", run, "--out", tmp_path / "one")
    one = Run.open(tmp_path / "one").read_findings()
    pd.testing.assert_frame_equal(one, found.iloc[:1], rtol=1e-9)


def test_verified_labels_are_locks(files: Files, tmp_path: Path) -> None:
    verified = tmp_path / "verified.csv"
    pd.DataFrame({"id": ["n400", "n401"], "label": ["d4", "d0"]}).to_csv(verified, index=False)
    arguments = (files.folder / "new.csv", "--with", files.folder / "table")
    succeed(*arguments, "--verified", verified, "--out", tmp_path / "run")
    found = Run.open(tmp_path / "run").read_findings()
    assert found["note"].tolist()[:3] == ["verified", "verified", found["note"].iloc[2]]
    assert found["corrected_label"].tolist()[:2] == ["d4", "d0"]


def test_images(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pixels_of.py").write_text(EMBEDDER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, rows in (("old", OLD), ("new", NEW)):
        for row in range(rows.start, rows.stop):
            path = tmp_path / name / f"d{files.labels[row]}" / f"{row}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray((files.images[row] * 15).astype(np.uint8)).save(path)
    own = ("--embedder", "pixels_of:embed")
    succeed("old", *own, "--out", "run")
    message = refused("new", "--with", "run", "--out", "x")
    assert "name it with --embedder pixels_of:embed" in message
    succeed("new", "--with", "run", *own, "--out", "judged")
    found = Run.open("judged").read_findings()
    truth = {str(row): f"d{files.truth[row]}" for row in range(NEW.start, NEW.stop)}
    right = [label == truth[Path(key).stem] for key, label in found["corrected_label"].items()]
    assert np.mean(right) > 0.9
    assert "changed" not in refused(files.folder / "new.npz", "--with", "run", "--out", "x")
    shutil.move("new/d1", "new/d1s")
    message = refused("new", "--with", "run", *own, "--out", "x")
    assert "'d1s'" in message
    assert "did you mean 'd1'?" in message
    (tmp_path / "pixels_of.py").write_text(EMBEDDER + "# other\n")
    assert "has changed since run was made" in refused("new", "--with", "run", *own, "--out", "x")
    assert not Path("x").exists()


def test_what_does_not_fit_is_refused(files: Files, tmp_path: Path) -> None:
    arrays, table = files.folder / "arrays", files.folder / "table"
    new, out = files.folder / "new.npz", tmp_path / "out"
    message = refused(files.folder / "new.csv", "--with", arrays, "--label", "kind", "--out", out)
    assert "holds columns of a table, but" in message
    assert "judges arrays of features" in message
    np.savez(tmp_path / "wide", features=np.ones((3, 7)), labels=[0, 1, 2])
    message = refused(tmp_path / "wide.npz", "--with", arrays, "--out", out)
    assert "has 7 features per row" in message
    files.table[NEW].drop(columns="p9").to_csv(tmp_path / "few.csv", index=False)
    message = refused(tmp_path / "few.csv", "--with", table, "--out", out)
    assert "has no column 'p9'" in message
    message = refused(files.folder / "new.csv", "--features", "p1", "--with", table, "--out", out)
    assert "leave --features out" in message
    for option, value in (
        ("--seed", "3"),
        ("--class-prior", "uniform"),
        ("--duplicates", "ignore"),
        ("--group", "code"),
        ("--annotator", "code"),
        ("--votes", "votes.csv"),
    ):
        assert f"{option} cannot go with --with" in refused(
            new, "--with", arrays, option, value, "--out", out
        )
    assert "is the run that judges" in refused(new, "--with", arrays, "--out", arrays)
    assert "used none" in refused(new, "--with", arrays, "--embedder", "x:y", "--out", out)
    assert not out.exists()


def test_a_run_without_a_whole_cleaner_is_refused(files: Files, tmp_path: Path) -> None:
    new, out = files.folder / "new.npz", tmp_path / "out"
    run = shutil.copytree(files.folder / "arrays", tmp_path / "run")
    (run / "cleaner.npz").write_bytes((run / "cleaner.npz").read_bytes()[:5000])
    message = refused(new, "--with", run, "--out", out)
    assert f"{run / 'cleaner.npz'} is not a saved LabelCleaner, or it is damaged" in message
    (run / "cleaner.npz").unlink()
    assert "has no cleaner.npz" in refused(new, "--with", run, "--out", out)
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | {"n_annotators": 3}))
    assert "several annotators" in refused(new, "--with", run, "--out", out)


def test_unlabelled_rows_get_a_suggestion(files: Files, tmp_path: Path) -> None:
    digits = load_digits(n_class=5)
    np.savez(tmp_path / "bare", features=digits.data[NEW])
    succeed(tmp_path / "bare.npz", "--with", files.folder / "arrays", "--out", tmp_path / "run")
    found = Run.open(tmp_path / "run").read_findings()
    assert found["given_label"].isna().all()
    assert (found["corrected_label"] == files.truth[NEW]).mean() > 0.9
