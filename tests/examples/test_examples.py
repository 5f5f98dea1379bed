"""Every file of examples/ runs as written, and learns."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_are_tested() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {"plain_pytorch", "lightning_fabric_loop", "hugging_face_trainer"}


def test_plain_pytorch() -> None:
    accuracy, right = load("plain_pytorch").main()
    assert accuracy > 0.88
    assert right > 0.85, "55 % of the labels are right as given"


def test_lightning_fabric_loop(tmp_path: Path) -> None:
    pytest.importorskip("lightning_fabric", reason="needs csot[train]")
    example = load("lightning_fabric_loop")
    whole = example.train(tmp_path / "whole.pt")
    assert whole > 0.88
    example.train(tmp_path / "parts.pt", stop_after=15)
    assert example.train(tmp_path / "parts.pt") == whole, "interrupted and resumed"


def test_hugging_face_trainer() -> None:
    pytest.importorskip("transformers", reason="needs csot[hf]")
    pytest.importorskip("accelerate", reason="the Trainer of transformers needs accelerate")
    assert load("hugging_face_trainer").main() > 0.6, "a quarter is right by chance"
