"""`csot export`: the same probabilities without csot, and a card that says what they are."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import csot
from csot.data.datasets.core.dataset_registry import read_training_data
from csot.training import export, train
from image_files import write_image
from training.quick import FEATURES, command, fails, planted

onnxruntime = pytest.importorskip("onnxruntime", reason="needs csot[onnx]")
pytest.importorskip("onnxscript", reason="needs csot[onnx]")


def by_onnx(path: Path, inputs: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"inputs": inputs})[0]


def by_torch(path: Path, inputs: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return torch.export.load(path).module()(torch.from_numpy(inputs)).numpy()


def test_digits_by_the_command(digits_run: Path, tmp_path: Path) -> None:
    onnx, pt2 = tmp_path / "model.onnx", tmp_path / "other.pt2"
    result = command("export", digits_run, "--onnx", onnx, "--torch-export", pt2)
    assert result.exit_code == 0, result.output
    assert "equal to the run on 64 rows of its data" in result.stdout
    assert result.stderr == ""
    images = read_training_data("digits").tests[0].samples.batch(torch.arange(100)).numpy()
    expected = csot.load(digits_run).predict_proba(images)
    for rows in (1, 7, 100):
        np.testing.assert_allclose(by_onnx(onnx, images[:rows]), expected[:rows], atol=1e-4)
        np.testing.assert_allclose(by_torch(pt2, images[:rows]), expected[:rows], atol=1e-4)
    card = (tmp_path / "model.md").read_text(encoding="utf-8")
    assert (tmp_path / "other.md").exists()
    for text in (
        "# model.onnx",
        "uint8 images (N, 1, 8, 8)",
        "digits: 200 training rows, 10 classes",
        "noise was added to the labels: sym:0.5",
        "method csot, preset digits, seed 0",
        "test set, last epoch",
        "64 rows of the data of the run",
        "held-out labels are not predicted clearly better than chance: do not use",
    ):
        assert text in card, text
    line = fails("export", digits_run, "--onnx", onnx)
    assert "model.onnx exists: --force replaces it" in line


def test_features_of_two_networks(tmp_path: Path) -> None:
    """The data is not a file, so the check is on random rows."""
    settings = {**FEATURES, "epochs": 12, "holdout": 0.3}
    run = train(planted(), out=tmp_path / "run", method="co_teaching", settings=settings)
    done = export(run.path, onnx=tmp_path / "m.onnx", torch_export=tmp_path / "m.pt2")
    assert done.cards == [tmp_path / "m.md"]
    assert done.cards[0].read_text(encoding="utf-8").startswith("# m.onnx and m.pt2\n")
    assert not done.real
    assert done.difference <= 1e-4
    features = planted().train.batch(torch.arange(9)).numpy()
    expected = csot.load(run.path).predict_proba(features)
    np.testing.assert_allclose(by_onnx(tmp_path / "m.onnx", features), expected, atol=1e-4)
    assert "64 random rows" in done.cards[0].read_text(encoding="utf-8")


def test_images_with_a_crop(tmp_path: Path) -> None:
    for row in range(24):
        name = "light" if row % 2 else "dark"
        write_image(
            tmp_path / "data" / name / f"{row}.png", (200 if row % 2 else 20) + row, size=(12, 12)
        )
    settings = {"batch_size": 8, "epochs": 2, "network.name": "resnet8", "network.width": 8}
    run = train(
        tmp_path / "data",
        out=tmp_path / "run",
        method="cross_entropy",
        settings={**settings, "views.crop": 8},
    )
    done = export(run.path, torch_export=tmp_path / "m.pt2", checkpoint="best")
    assert done.real
    assert done.rows == 24
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, 12, 12), dtype=np.uint8)
    expected = csot.load(run.path, checkpoint="best").predict_proba(pixels)
    np.testing.assert_allclose(by_torch(tmp_path / "m.pt2", pixels), expected, atol=1e-5)


def test_what_cannot_be_exported(
    digits_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = np.arange(60) % 2
    features = labels[:, None] + np.random.default_rng(0).normal(0, 0.2, (60, 3))
    np.savez(tmp_path / "d.npz", features=features, labels=labels)
    csot.clean_dataset(tmp_path / "d.npz", out=tmp_path / "cleaned")
    with pytest.raises(ValueError, match="nothing to export: pass `onnx` or `torch_export`"):
        export(digits_run)
    for arguments, message in [
        ((digits_run, "--onnx", tmp_path / "m.bin"), "must end in .onnx"),
        ((digits_run, "--onnx", tmp_path / "no" / "m.onnx"), "there is no folder"),
        ((tmp_path / "cleaned", "--onnx", tmp_path / "m.onnx"), "has no network to export"),
        ((tmp_path, "--onnx", tmp_path / "m.onnx"), "is not a training run"),
    ]:
        assert message in fails("export", *arguments)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    line = fails("export", digits_run, "--onnx", tmp_path / "m.onnx")
    assert "pip install 'csot[onnx]'" in line
    assert not (tmp_path / "m.onnx").exists()


def test_a_wrong_file_is_not_written(
    digits_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["csot.training.export"]
    monkeypatch.setattr(module, "TOLERANCE", -1.0)
    with pytest.raises(ValueError, match="was not written: its probabilities differ"):
        export(digits_run, torch_export=tmp_path / "m.pt2")
    assert list(tmp_path.iterdir()) == []
