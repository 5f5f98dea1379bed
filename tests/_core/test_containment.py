"""One rule for pictures: in the data folder once all links are followed, or by an explicit flag."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from csot._core.pictures import Containment
from csot.cli.app import app
from csot.data import Columns, DataError, read_data
from csot.data.datasets.clothing1m import read_clothing1m
from csot.data.datasets.core.dataset_registry import read_training_data
from csot.data.readers.to_predict import Wanted, read_inputs
from csot.data.types import DatasetRequest
from csot.report import write_report
from csot.review.domain.decision_exports import label_studio_json
from csot.review.domain.session import Session
from csot.runs import Run
from image_files import write_image
from report.sample_runs import write_run
from source_files import write_clothing1m


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with pictures, and ways out of it."""
    root = tmp_path / "data"
    for name in ("in/good.png", "in/other.png", "a b.png"):
        write_image(root / name, 50)
    write_image(tmp_path / "secret.png", 201)
    (root / "link.png").symlink_to(tmp_path / "secret.png")
    (root / "out").symlink_to(tmp_path)
    (root / "inner.png").symlink_to(root / "in" / "good.png")
    return root


def inside(data: Path) -> list[str]:
    absolute = str(data / "in" / "good.png")
    return ["in/good.png", "in/../in/good.png", "./a b.png", "inner.png", absolute]


def outside(data: Path) -> list[str]:
    secret = str(data.parent / "secret.png")
    return ["../secret.png", secret, "link.png", "out/secret.png", "in/../../secret.png"]


def test_the_rule(data: Path) -> None:
    rule = Containment(data)
    for name in inside(data):
        assert rule.allows(data / name), name
        assert rule.find(name).is_file()
    for name in [*outside(data), "..", "in/..", "a\0b", "/", "/etc/passwd"]:
        assert not rule.allows(data / name), name
    for name in outside(data):
        assert Containment(data, allow_outside=True).allows(data / name), name


def test_a_relative_data_folder(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data.parent)
    rule = Containment(Path("data"))
    assert rule.allows(Path("data/in/good.png"))
    assert not rule.allows(Path("data/../secret.png"))
    assert not rule.allows(Path("secret.png"))
    monkeypatch.chdir(data)
    assert Containment(Path()).allows(Path("in/good.png"))


def table(data: Path, names: list[str]) -> Path:
    frame = pd.DataFrame({"file": names, "label": ["a", "b"] * (len(names) // 2)})
    frame.to_csv(data / "t.csv", index=False)
    return data / "t.csv"


COLUMNS = Columns(label="label", image="file")


def test_tables(data: Path) -> None:
    good = ["in/good.png", "in/other.png", "a b.png", "inner.png"]
    path = table(data, [*good, *outside(data)[:4]])
    read = read_data(path, COLUMNS)
    assert len(read) == 4
    assert [skipped.id for skipped in read.skipped] == ["4", "5", "6", "7"]
    assert all("outside of the data folder" in skipped.reason for skipped in read.skipped)
    assert all("`allow_outside`" in skipped.reason for skipped in read.skipped)
    assert len(read_data(path, COLUMNS, allow_outside=True)) == 8
    path = table(data, outside(data)[:4])
    with pytest.raises(DataError, match="outside of the data folder; `allow_outside`"):
        read_data(path, COLUMNS)


def test_training_and_prediction(data: Path) -> None:
    path = table(data, ["in/good.png", "in/other.png", "a b.png", "inner.png", *outside(data)[:4]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(read_training_data(path, columns=COLUMNS)) == 4
        assert len(read_training_data(path, columns=COLUMNS, allow_outside=True)) == 8
        wanted = Wanted("images", (3, 8, 8), ["a", "b"])
        assert len(read_inputs(path, wanted, columns=COLUMNS).ids) == 4
        found = read_inputs(path, wanted, columns=COLUMNS, allow_outside=True)
    assert len(found.ids) == 8


def test_folders_of_links(data: Path, tmp_path: Path) -> None:
    farm = tmp_path / "farm"
    for name in ("cat", "dog"):
        (farm / name).mkdir(parents=True)
        for number, source in enumerate(("good.png", "other.png")):
            (farm / name / f"{number}.png").symlink_to(data / "in" / source)
    with (
        pytest.warns(UserWarning, match="no readable image"),
        pytest.raises(DataError, match="outside of the data folder; `allow_outside`"),
    ):
        read_data(farm)
    assert len(read_data(farm, allow_outside=True)) == 4


def test_lists_of_files(tmp_path: Path) -> None:
    root = write_clothing1m(tmp_path / "c")
    (root / "images" / "2").rename(tmp_path / "elsewhere")
    (root / "images" / "2").symlink_to(tmp_path / "elsewhere")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(DataError, match="outside of the data folder; `allow_outside`"):
            read_clothing1m(DatasetRequest(root, image_size=8))
        assert len(read_clothing1m(DatasetRequest(root, image_size=8, allow_outside=True))) == 4


def run_of(data: Path, names: list[str]) -> Run:
    rng = np.random.default_rng(0)
    run = write_run(
        data.parent / "run",
        rng.integers(0, 2, len(names)),
        ["a", "b"],
        rng,
        samples={"image": names},
        extra={"source": {"kind": "table", "path": str(data), "root": str(data)}},
    )
    run.write_label_studio(run.read_findings(), run.read_samples())
    return run


def test_the_report(data: Path) -> None:
    run = run_of(data, [*inside(data), *outside(data)])
    with pytest.warns(UserWarning, match="5 pictures lie outside .*`allow_outside`"):
        write_report(run)
    kept = run.report_path.read_text().count("data:image/png;base64")
    assert kept == 5
    write_report(run, allow_outside=True)
    assert run.report_path.read_text().count("data:image/png;base64") == 10


def test_the_commands(data: Path) -> None:
    run = run_of(data, [*inside(data), *outside(data)])
    result = CliRunner().invoke(app, ["report", str(run.path)])
    assert result.exit_code == 0
    assert "--allow-outside" in result.stderr
    assert str(data) in result.stdout, "where pictures come from is said"
    result = CliRunner().invoke(app, ["report", str(run.path), "--allow-outside"])
    assert result.stderr == ""
    for name in ("clean", "train", "compare", "predict", "review"):
        assert "--allow-outside" in CliRunner().invoke(app, [name, "--help"]).output.replace(
            "\n", ""
        )


@pytest.mark.parametrize("kept", [True, False])
def test_the_export(data: Path, kept: bool) -> None:
    run = run_of(data, [*inside(data), *outside(data)])
    if not kept:
        (run.path / "label_studio.json").unlink()
    session = Session(run, "ana")
    tasks = json.loads(label_studio_json(session.catalogue, {}, session.pictures))
    session.close()
    shown = {task["data"]["sample_id"]: bool(task["data"]["image"]) for task in tasks}
    assert [shown[str(row)] for row in range(10)] == [True] * 5 + [False] * 5
    session = Session(run, "ana", allow_outside=True)
    tasks = json.loads(label_studio_json(session.catalogue, {}, session.pictures))
    session.close()
    assert all(task["data"]["image"] for task in tasks)


def test_a_data_folder_that_is_a_link(data: Path, tmp_path: Path) -> None:
    os.symlink(data, tmp_path / "linked")
    path = table(data, ["in/good.png", "in/other.png", "a b.png", "inner.png"])
    assert len(read_data(tmp_path / "linked" / path.name, COLUMNS)) == 4
