"""A loss that is no number: what is said, and what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from csot.methods.cross_entropy import CrossEntropy
from csot.training import train
from csot.training.checkpoint import Checkpoints
from csot.training.divergence import describe_divergence
from training.quick import DIGITS, FEATURES, fails, planted


def test_the_command_stops_with_a_diagnosis(tmp_path: Path) -> None:
    huge = ("--set=learning_rate=1e9", "--set=batch_size=16", "--set=options.norm=none")
    line = fails("train", *DIGITS, *huge, "--out", tmp_path / "run")
    assert "the loss is not finite in epoch 1, step" in line
    assert "learning rate 1e+09" in line
    assert "no checkpoint yet" in line
    assert "with a smaller learning_rate or with clip=1" in line


def test_weights_that_have_diverged_are_not_saved(tmp_path: Path) -> None:
    """One step an epoch: its loss is still a number, and what comes of it is not."""
    one_step = ("--set=batch_size=128", "--set=learning_rate=1e9")
    line = fails("train", *DIGITS, "--out", tmp_path / "run", *one_step)
    assert "rows are not finite: the network has diverged" in line
    assert Checkpoints(tmp_path / "run" / "checkpoints").load() is None


def test_the_last_good_checkpoint_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = CrossEntropy.forward

    def broken(self: CrossEntropy, batch: object) -> object:
        losses = good(self, batch)  # type: ignore[arg-type]
        return {k: v * float("nan") for k, v in losses.items()} if self.epoch > 2 else losses

    def begin(self: CrossEntropy, epoch: int) -> dict[str, float]:
        self.epoch = epoch
        return {}

    monkeypatch.setattr(CrossEntropy, "forward", broken)
    monkeypatch.setattr(CrossEntropy, "begin_epoch", begin)
    with pytest.raises(FloatingPointError, match=r"epoch 3, step 1 \(cross_entropy\); all param"):
        train(planted(), out=tmp_path / "run", method="cross_entropy", settings=FEATURES)
    kept = Checkpoints(tmp_path / "run" / "checkpoints").load()
    assert kept is not None
    assert kept.epoch == 2
    assert all(torch.isfinite(value).all() for value in kept.model.values())
    assert len((tmp_path / "run" / "metrics.csv").read_text().splitlines()) == 3


def test_weights_that_break_in_the_last_step_are_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(self: CrossEntropy, batch: object) -> None:
        with torch.no_grad():
            next(self.parameters()).fill_(float("inf"))

    monkeypatch.setattr(CrossEntropy, "after_step", spoil)
    settings = {**FEATURES, "batch_size": 100}
    with pytest.raises(FloatingPointError, match="hold NaN or infinity after epoch 1"):
        train(planted(), out=tmp_path / "run", method="cross_entropy", settings=settings)
    assert Checkpoints(tmp_path / "run" / "checkpoints").load() is None


def test_broken_parameters_are_named() -> None:
    module = nn.Linear(2, 2)
    with torch.no_grad():
        module.bias[0] = float("nan")
    losses = {"mix": torch.tensor(1.0), "lab": torch.tensor(float("nan"))}
    text = describe_divergence(module, losses, {"epoch": 7, "learning_rate": 0.1}, 3, kept=6)
    assert "epoch 7, step 3 (lab)" in text
    assert "1 parameters hold NaN or infinity, first bias" in text
    assert "the checkpoint of epoch 6 is kept" in text
