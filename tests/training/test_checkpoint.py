"""Checkpoints: whole or not there, and never code."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from csot.training.checkpoint import MODEL, STATE, Checkpoint, Checkpoints


def checkpoint(epoch: int) -> Checkpoint:
    model = {"weight": torch.full((2, 3), float(epoch)), "seen": torch.tensor(True)}
    history = [{"epoch": number, "loss": 0.5} for number in range(1, epoch + 1)]
    return Checkpoint(epoch, model, {"history": history, "optimiser": {"state": {}}})


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_round_trip(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert checkpoints.load() is None
    assert checkpoints.epoch("best") is None
    saved = checkpoint(3)
    checkpoints.save(saved, best=True)
    found = checkpoints.load()
    assert found is not None
    assert found.epoch == 3
    assert found.state == saved.state
    assert all(found.model[name].equal(value) for name, value in saved.model.items())


def test_strided_tensors_are_saved(tmp_path: Path) -> None:
    weight = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    Checkpoints(tmp_path).save(Checkpoint(1, {"weight": weight}, {}), best=False)
    found = Checkpoints(tmp_path).load()
    assert found is not None
    assert found.model["weight"].equal(weight)


def test_only_last_and_best_remain(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for epoch, best in ((1, True), (2, True), (3, False), (4, False)):
        checkpoints.save(checkpoint(epoch), best=best)
    assert names(tmp_path) == {"epoch-2", "epoch-4", "last.json", "best.json"}
    best_one = checkpoints.load("best")
    assert best_one is not None
    assert best_one.epoch == 2


class Killed(BaseException):
    pass


@pytest.mark.parametrize("call", range(1, 5))
@pytest.mark.parametrize("function", ["replace", "fsync"])
def test_a_kill_at_any_write_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, call: int
) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(checkpoint(1), best=True)
    calls = 0
    real = getattr(os, function)

    def killed(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, function, killed)
        with pytest.raises(Killed):
            checkpoints.save(checkpoint(2), best=True)
    found = Checkpoints(tmp_path).load()
    assert found is not None
    assert found.epoch in (1, 2)
    assert found.model["weight"].equal(checkpoint(found.epoch).model["weight"])
    assert len(found.state["history"]) == found.epoch
    assert Checkpoints(tmp_path).load("best") is not None
    # The next one is saved over what is left, and nothing else stays.
    checkpoints.save(checkpoint(2), best=True)
    assert names(tmp_path) == {"epoch-2", "last.json", "best.json"}
    assert names(tmp_path / "epoch-2") == {MODEL, STATE}


def test_partial_files_are_swept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(checkpoint(1), best=True)
    (tmp_path / ".last.json.0123456789ab.partial").write_text("{")
    (tmp_path / "epoch-9").mkdir()
    checkpoints.save(checkpoint(2), best=True)
    assert names(tmp_path) == {"epoch-2", "last.json", "best.json"}


def test_code_is_not_run(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(checkpoint(1), best=True)

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (Path(tmp_path / "ran"),)  # type: ignore[return-value]

    torch.save({"history": Evil()}, tmp_path / "epoch-1" / STATE)
    with pytest.raises(ValueError, match=r"state\.pt is not .*more than tensors"):
        checkpoints.load()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"epoch": "x"}', '{"epoch": 7}'])
def test_a_broken_pointer_is_explained(tmp_path: Path, text: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(checkpoint(1), best=True)
    (tmp_path / "last.json").write_text(text)
    with pytest.raises(ValueError, match=r"last\.json"):
        checkpoints.load()


@pytest.mark.parametrize("name", [MODEL, STATE])
@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_damaged_checkpoint_is_explained(tmp_path: Path, name: str, damage: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(checkpoint(1), best=True)
    file = tmp_path / "epoch-1" / name
    content = file.read_bytes()
    file.unlink()
    if damage == "cut":
        file.write_bytes(content[:20])
    with pytest.raises(ValueError, match="epoch-1"):
        checkpoints.load()


def test_clear(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save(checkpoint(1), best=True)
    assert json.loads((tmp_path / "checkpoints" / "last.json").read_text()) == {"epoch": 1}
    checkpoints.clear()
    assert checkpoints.load() is None
