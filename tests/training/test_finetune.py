"""Pretrained networks that are trained on, end to end on a few small pictures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import nn

import csot
from csot.training.config import MachineConfig
from csot.training.finetune import build_pretrained, wanted_inputs
from csot.training.hardware import choose_precision
from image_files import write_image
from training.quick import last_tensors, planted

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
QUICK = {
    "epochs": 2,
    "batch_size": 8,
    "network.options": {"head_epochs": 1, "tuned": 0.25},
    "warmup": 1,
    "supervised_epochs": 2,
    "policy": "none",
    "views.padding": 2,
}


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for row in range(24):
        name = "light" if row % 2 else "dark"
        write_image(folder / name / f"{row}.png", value=(200 if row % 2 else 20) + row)
    return folder


@pytest.fixture(scope="session")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    transformers: Any = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("models") / "vit"
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 64, "image_size": 32, "patch_size": 8}
    transformers.ViTModel(transformers.ViTConfig(**sizes)).save_pretrained(folder)
    processor = {
        "image_processor_type": "ViTImageProcessor",
        "size": {"height": 32, "width": 32},
        "image_mean": [0.4, 0.5, 0.6],
        "image_std": [0.2, 0.25, 0.3],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def test_a_model_of_transformers_is_trained_on(photos: Path, vit: Path, tmp_path: Path) -> None:
    """Its size and normalisation are its own; only its last block and what follows changes."""
    backbone = f"hf:{vit}"
    run = csot.train(photos, out=tmp_path / "run", backbone=backbone, frozen=False, settings=QUICK)
    facts = yaml.safe_load((tmp_path / "run" / "inputs.yaml").read_text())
    assert facts["shape"] == [3, 32, 32]
    assert facts["mean"] == pytest.approx([0.4, 0.5, 0.6])
    assert run.summary["settings"]["preset"] == "finetune"
    before = build_pretrained(backbone, 2, (3, 32, 32), {}).state_dict()
    after = last_tensors(run.path)
    moved = [name for name in before if not after[f"networks.0.{name}"].equal(before[name])]
    blocks = {found[1] for name in moved if (found := re.search(r"\.(\d)\.", name))}
    assert blocks == {"3"}
    assert "classifier.weight" in moved


def test_efficientnet_is_trained_on_and_loaded(photos: Path, tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    settings = {**QUICK, "image_size": 32}
    run = csot.train(photos, out=tmp_path / "run", frozen=False, settings=settings)
    found = csot.load(run.path).predict_proba(sorted(photos.rglob("*.png"))[:3])
    assert found.shape == (3, 2)


def test_what_a_pretrained_network_wants() -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    wanted = wanted_inputs("efficientnet-lite2")
    assert wanted.side == 260
    # (x - 127) / 128 of bytes.
    assert wanted.mean[0] * 255 == pytest.approx(127)
    assert wanted.std[0] * 255 == pytest.approx(128)
    with pytest.raises(ValueError, match="option of efficientnet-lite0 called"):
        build_pretrained("efficientnet-lite0", 2, (3, 32, 32), {"width": 3})


def test_mixed_precision_is_for_gpus() -> None:
    assert choose_precision(MachineConfig(accelerator="cpu", precision="auto")) == "32-true"
    assert choose_precision(MachineConfig(precision="16-mixed")) == "16-mixed"


def test_a_module_of_ones_own(tmp_path: Path) -> None:
    """It is copied for training, and needed again to load the run."""
    module = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    before = [value.clone() for value in module.parameters()]
    settings = {"epochs": 3, "batch_size": 16, "holdout": 0.1}
    run = csot.train(
        planted(), out=tmp_path / "run", method="cross_entropy", backbone=module, settings=settings
    )
    assert run.summary["settings"]["training"]["network"]["name"] == "in memory: Sequential"
    assert all(a.equal(b) for a, b in zip(module.parameters(), before, strict=True))
    with pytest.raises(ValueError, match="pass it as `backbone`"):
        csot.load(run.path)
    features = planted().tests[0].samples.batch(torch.arange(30))
    found = csot.load(run.path, backbone=module).predict(features)
    right = [f"class {label}" for label in planted().tests[0].labels.tolist()]
    accuracy = float(np.mean(found == np.array(right, dtype=object)))
    assert accuracy == pytest.approx(run.summary["test_accuracy_last"])
