"""`csot train`: folders that are in use, settings that differ, what is printed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from csot.training.run_folder import RunFolder
from training.quick import DIGITS, command, fails

SHORT = (*DIGITS, "--set=epochs=2", "--set=warmup=1", "--method", "csot")


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("train") / "run"
    result = command("train", *SHORT, "--out", out)
    assert result.exit_code == 0, result.output
    for text in ("csot on digits, preset digits, noise sym:0.5", "held out", "labels corrected"):
        assert text in result.stdout
    assert "parameters on cpu: 2 epochs of 180 rows" in result.stdout
    assert "it takes about" in result.stdout
    # Too short to learn anything; test_better_than_chance tests what a longer run prints.
    assert "does not predict held-out labels" in result.stderr
    return out


def test_what_is_written(run: Path) -> None:
    assert (run / "report.html").exists()
    config = RunFolder(run).read_config()
    assert config.training.epochs == 2
    assert config.preset == "digits"


def test_a_run_is_not_overwritten(run: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    line = fails("train", *SHORT, "--out", run)
    assert "that reached epoch 2: --resume continues it, --force starts over" in line
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--seed", "1"], "was begun with seed=0, now it is 1"),
        (["--noise", "sym:0.2"], "noise='sym:0.5', now it is 'sym:0.2'"),
        (["--set=learning_rate=0.3"], "training.optimiser.learning_rate=0.05, now it is 0.3"),
        (["--set=epsilon=0.3"], "settings.epsilon=0.1, now it is 0.3"),
        (["--method", "cross_entropy"], "method='csot'"),
    ],
)
def test_resume_with_other_settings(run: Path, changed: list[str], message: str) -> None:
    # What another method would not know must not be in the way.
    other = "cross_entropy" in changed
    shared = [part for part in SHORT if not (other and ("warmup" in part or "supervised" in part))]
    assert message in fails("train", *shared, "--out", run, "--resume", *changed)


def test_another_machine_may_resume(run: Path) -> None:
    result = command("train", *SHORT, "--out", run, "--resume", "--precision", "bf16-mixed")
    assert result.exit_code == 0, result.output


def test_force_starts_anew(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run"
    assert command("train", *SHORT, "--out", out, "--quiet").stdout == ""
    assert (out / "summary.json").exists()

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        # `csot.training.train` is also the function of that name.
        patch.setattr(sys.modules["csot.training.train"], "run_loop", interrupted)
        result = command("train", *SHORT, "--out", out, "--force", "--seed", "3")
    assert result.exit_code == 130
    assert "--resume continues" in result.stderr
    assert not (out / "summary.json").exists(), "the old result is not taken for the new one"
    assert not (out / "checkpoints").exists()
    assert command("train", *SHORT, "--out", out, "--seed", "3", "--resume").exit_code == 0


def test_a_folder_of_the_cleaner(tmp_path: Path) -> None:
    labels = np.arange(60) % 2
    features = labels[:, None] + np.random.default_rng(0).normal(0, 0.2, (60, 3))
    np.savez(tmp_path / "d.npz", features=features, labels=labels)
    out = tmp_path / "run"
    assert command("clean", tmp_path / "d.npz", "--out", out).exit_code == 0
    for force in ((), ("--force",)):
        line = fails("train", *SHORT, "--out", out, *force)
        assert "holds a run of another command: choose another --out" in line
    assert (out / "summary.json").exists()
    assert (out / "cleaner.npz").exists()


def test_a_folder_that_is_no_run_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "checkpoints").mkdir(parents=True)
    (mine / "checkpoints" / "thesis.pt").write_text("years of work")
    (mine / "metrics.csv").write_text("mine")
    for force in ([], ["--force"]):
        assert "is not a run" in fails("train", *SHORT, "--out", mine, *force)
    assert (mine / "checkpoints" / "thesis.pt").exists()
    assert (mine / "metrics.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digist"], "did you mean 'digits'?"),
        (["digits", "--preset", "digist"], "preset 'digist' is unknown; did you mean 'digits'?"),
        (["digits", "--method", "csott"], "method 'csott' is unknown; did you mean 'csot'?"),
        (["digits", "--noise", "sim:0.5"], "did you mean 'sym'?"),
        (["digits", "--set", "epocs=3"], "--set epocs: there is no such key"),
        (["digits", "--set", "epochs"], "write key=value"),
        (["digits", "--set", "epochs=0"], "training.epochs is 0"),
        (["digits", "--limit", "3"], "less than one row for each of 10 classes"),
        (["digits", "--precision", "8"], "machine.precision is '8'"),
        (["digits", "--test", "x"], "brings its own test set"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    assert message in fails("train", *arguments, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    out = tmp_path / "run"
    result = command("train", *SHORT, "--out", out, "--tensorboard", "--quiet")
    assert result.exit_code == 0, result.output
    (events,) = (out / "tensorboard").iterdir()
    assert b"test_accuracy" in events.read_bytes()


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    assert "pip install 'csot[train]'" in fails("train", "digits", "--out", tmp_path / "run")


@pytest.mark.parametrize("out", ["photos", "photos/run", "."])
def test_the_run_and_the_data_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    """A run among the classes would be read as one of them the next time."""
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert "choose a" in fails("train", "photos", "--out", out)
    assert [path.name for path in tmp_path.rglob("*")] == ["photos", "cat"]
