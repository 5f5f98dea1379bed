"""`csot predict`: every kind of input, with labels or without."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from csot._core.errors import FileError
from csot.data.datasets.core.dataset_registry import read_training_data
from csot.data.readers.to_predict import Wanted, read_inputs
from csot.training import train
from csot.training.predict import Predictor
from image_files import write_image
from training.quick import FEATURES, command, fails, planted

CLASSES = ["class 0", "class 1", "class 2"]


@pytest.fixture(scope="session")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("features") / "run"
    train(planted(), out=out, method="cross_entropy", settings=FEATURES)
    return out


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on dark and light pictures of 8 pixels, and the pictures beside it."""
    folder = tmp_path_factory.mktemp("images")
    for row in range(24):
        name = "light" if row % 2 else "dark"
        write_image(folder / "data" / name / f"{row}.png", value=(200 if row % 2 else 20) + row)
    settings = ("batch_size=8", "epochs=2", "network.name=resnet8", "network.width=4")
    chosen = [f"--set={pair}" for pair in settings]
    result = command(
        "train", folder / "data", "--method", "cross_entropy", "--out", folder / "run", *chosen
    )
    assert result.exit_code == 0, result.output
    return folder


def columns(names: list[str]) -> list[str]:
    return ["id", "predicted_label", "confidence", *(f"prob_{name}" for name in names)]


@pytest.mark.parametrize("checkpoint", ["best", "last"])
def test_the_test_set_of_a_name(digits_run: Path, tmp_path: Path, checkpoint: str) -> None:
    """The accuracy is the one that training measured, so the network is the same one."""
    out = tmp_path / "p.csv"
    result = command("predict", digits_run, "digits", "--out", out, "--checkpoint", checkpoint)
    assert result.exit_code == 0, result.output
    metrics = pd.read_csv(digits_run / "metrics.csv")
    epoch = metrics["holdout_accuracy"][::-1].idxmax() if checkpoint == "best" else len(metrics) - 1
    assert f"accuracy {metrics['test_accuracy'][epoch]:.2%}" in result.stdout
    assert f"(epoch {epoch + 1})" in result.stdout
    table = pd.read_csv(out, dtype={"predicted_label": str})
    assert table.columns.tolist() == columns([str(digit) for digit in range(10)])
    truth = read_training_data("digits").tests[0].labels
    right = (table["predicted_label"] == [str(label) for label in truth.tolist()]).mean()
    assert right == pytest.approx(metrics["test_accuracy"][epoch])
    probabilities = table.filter(like="prob_").to_numpy()
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(probabilities.max(1), table["confidence"])


def test_csot_and_its_memory_are_rebuilt(digits_run: Path) -> None:
    """CSOT remembers something of every training row; a checkpoint has it, and so has this."""
    predictor = Predictor(digits_run, "last")
    method = predictor._method
    assert method.context.labels.shape == (200,)
    assert bool(method.has_split)
    assert predictor.wanted == Wanted("images", (1, 8, 8), [str(digit) for digit in range(10)])


def held(rows: int = 9) -> np.ndarray:
    return planted().train.batch(torch.arange(rows)).numpy()


def write_inputs(folder: Path, form: str, labelled: bool) -> tuple[Path, list[str]]:
    """The first planted rows as a file; and the options that it needs."""
    values, labels = held(), [CLASSES[label] for label in planted().true_labels[:9].tolist()]
    if form == "npz":
        np.savez(folder / "d.npz", features=values, **({"labels": labels} if labelled else {}))
        return folder / "d.npz", []
    if form == "npy":
        (folder / "d").mkdir()
        np.save(folder / "d" / "features.npy", values)
        if labelled:
            np.save(folder / "d" / "labels.npy", np.array(labels))
        return folder / "d", []
    table = pd.DataFrame(values, columns=[f"f{k}" for k in range(5)])
    if labelled:
        table["what"] = labels
    path = folder / f"d.{form}"
    table.to_csv(path, index=False) if form == "csv" else table.to_parquet(path)
    return path, ["--label", "what"] if labelled else []


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("form", ["npz", "npy", "csv", "parquet"])
def test_features(features: Path, tmp_path: Path, form: str, labelled: bool) -> None:
    path, options = write_inputs(tmp_path, form, labelled)
    result = command("predict", features, path, "--out", tmp_path / "p.csv", *options)
    assert result.exit_code == 0, result.output
    assert ("accuracy" in result.stdout) == labelled
    table = pd.read_csv(tmp_path / "p.csv")
    assert table.columns.tolist() == columns(CLASSES)
    assert table["id"].tolist() == list(range(9))
    predictor = Predictor(features)
    found = predictor(read_inputs(path, predictor.wanted, columns=None)) if not labelled else None
    if found is not None:
        np.testing.assert_allclose(table.filter(like="prob_"), found.probabilities, atol=1e-6)
        assert found.accuracy is None


def test_other_outputs(features: Path, tmp_path: Path) -> None:
    path, _ = write_inputs(tmp_path, "npz", False)
    for name in ("p.csv", "p.parquet", "p.npz"):
        assert command("predict", features, path, "--out", tmp_path / name).exit_code == 0
    table = pd.read_csv(tmp_path / "p.csv")
    again = pd.read_parquet(tmp_path / "p.parquet")
    assert again["predicted_label"].tolist() == table["predicted_label"].tolist()
    with np.load(tmp_path / "p.npz") as arrays:
        assert arrays["predicted_labels"].tolist() == table["predicted_label"].tolist()
        assert arrays["class_names"].tolist() == CLASSES
        np.testing.assert_allclose(arrays["probabilities"], table.filter(like="prob_"), atol=1e-6)


def test_images_in_class_folders_or_loose(images: Path, tmp_path: Path) -> None:
    run, out = images / "run", tmp_path / "p.csv"
    result = command("predict", run, images / "data", "--out", out)
    assert result.exit_code == 0, result.output
    assert "accuracy" in result.stdout
    assert pd.read_csv(out)["id"][0] == "dark/0.png"
    for row in range(3):
        write_image(tmp_path / "loose" / f"{row}.png", value=20)
    (tmp_path / "loose" / "broken.png").write_bytes(b"broken")
    write_image(tmp_path / "loose" / "more" / "3.png", value=20)
    result = command("predict", run, tmp_path / "loose", "--out", out, "--force")
    assert result.exit_code == 0, result.output
    assert "1 left out, first broken.png" in result.stderr
    assert "accuracy" not in result.stdout
    assert pd.read_csv(out)["id"].tolist() == ["0.png", "1.png", "2.png", "more/3.png"]


def test_a_table_of_image_paths(images: Path, tmp_path: Path) -> None:
    names = [f"dark/{row}.png" for row in (0, 2)] + ["light/1.png"]
    pd.DataFrame({"file": names, "key": ["a", "b", "c"]}).to_csv(tmp_path / "t.csv", index=False)
    options = ("--image", "file", "--id", "key", "--root", images / "data")
    out = tmp_path / "p.csv"
    result = command("predict", images / "run", tmp_path / "t.csv", "--out", out, *options)
    assert result.exit_code == 0, result.output
    assert pd.read_csv(out)["id"].tolist() == ["a", "b", "c"]
    whole = tmp_path / "whole.csv"
    command("predict", images / "run", images / "data", "--out", whole)
    by_id = pd.read_csv(whole, index_col="id")
    np.testing.assert_allclose(
        pd.read_csv(out)["prob_dark"], by_id.loc[names, "prob_dark"], rtol=1e-5
    )
    line = fails("predict", images / "run", tmp_path / "t.csv", "--out", tmp_path / "q.csv")
    assert "name the column of their paths with --image" in line


def test_rows_wider_than_the_network(features: Path, tmp_path: Path) -> None:
    """A line of inputs.yaml would take gigabytes of zeros."""
    run = tmp_path / "run"
    shutil.copytree(features, run)
    facts = yaml.safe_load((run / "inputs.yaml").read_text())
    (run / "inputs.yaml").write_text(yaml.safe_dump({**facts, "shape": [10_000_000]}))
    with pytest.raises(FileError, match=r"run is not.*rows of 10,000,000 features.*parameters"):
        Predictor(run, "last")


def test_nothing_is_overwritten(features: Path, tmp_path: Path) -> None:
    path, _ = write_inputs(tmp_path, "npz", False)
    out = tmp_path / "p.csv"
    out.write_text("mine")
    assert "exists: --force replaces it" in fails("predict", features, path, "--out", out)
    assert out.read_text() == "mine"
    assert command("predict", features, path, "--out", out, "--force", "-q").stdout == ""
    assert out.read_text() != "mine"


def test_wrong_inputs(features: Path, images: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "wide.npz", features=np.zeros((3, 7)))
    np.savez(tmp_path / "odd.npz", features=np.zeros((3, 5)), labels=["class 0", "clas 1", "x"])
    np.savez(tmp_path / "none.npz", other=np.zeros(3))
    np.savez(tmp_path / "short.npz", features=np.zeros((3, 5)), labels=["class 0"])
    pd.DataFrame(np.zeros((3, 6))).to_csv(tmp_path / "six.csv", index=False)
    (tmp_path / "notes.doc").write_text("text")
    (tmp_path / "empty").mkdir()
    cases = [
        (
            features,
            "wide.npz",
            "holds 7 features per row; the run was trained on 5 features per row",
        ),
        (features, "odd.npz", "the label 'clas 1' in row 1 (from 0) is not a class"),
        (features, "none.npz", "has no array 'features'; it holds other"),
        (features, "short.npz", "labels has shape (1,), but features has 3 rows; (3,) is needed"),
        (features, "six.csv", "has 6 features per row (0, 1, 2, 3, 4 and 1 more), but the run was"),
        (features, "notes.doc", "files of the kind '.doc' are not read"),
        (features, "nowhere", "is neither a path nor one of digits"),
        (features, "empty", "is a folder of images; the run was trained on 5 features per row"),
        (images / "run", "empty", "has no readable image"),
        (images / "run", "wide.npz", "trained on images of shape (3, "),
    ]
    for run, name, message in cases:
        assert message in fails("predict", run, tmp_path / name, "--out", tmp_path / "p.csv")
    assert not (tmp_path / "p.csv").exists()
    line = fails("predict", features, "digits", "--out", tmp_path / "p.csv")
    assert "digits holds images of shape (1, 8, 8); the run was trained on 5 features" in line


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("p.txt", "must end in .csv, .parquet or .npz"),
        ("gone/p.csv", "there is no folder"),
        ("folder.csv", "is a folder: name a file"),
    ],
)
def test_wrong_targets(features: Path, tmp_path: Path, out: str, message: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    assert message in fails("predict", features, "digits", "--out", tmp_path / out)


def test_what_is_no_training_run(tmp_path: Path) -> None:
    line = fails("predict", tmp_path, "digits", "--out", tmp_path / "p.csv")
    assert "is not a training run: it has no config.yaml" in line
