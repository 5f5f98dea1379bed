"""Checkpoints that survive a kill at any moment.

Each checkpoint is a folder, `epoch-12`, with the model in safetensors and the rest in a file of
plain tensors and numbers. Two small files, `last.json` and `best.json`, point to the folders in
use; each is replaced atomically after the folder it points to has been written.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from csot._core.errors import FileError
from csot._core.files import atomic_write, read_json, remove_partials, write_text
from csot.nets.weights import read_safetensors, read_torch

MODEL = "model.safetensors"
STATE = "state.pt"
POINTER_LIMIT = 1 << 12
"""Bytes; pointers have about 15."""
MOST_EPOCHS = 10**9


@dataclass(frozen=True)
class Checkpoint:
    """The state at the end of an epoch."""

    epoch: int
    model: dict[str, Tensor]
    state: dict[str, Any]
    """Optimiser and history: only tensors, numbers, text, lists and dicts."""


class Checkpoints:
    """The folder `checkpoints` of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, checkpoint: Checkpoint, *, best: bool) -> None:
        """Save as the last checkpoint, and as the best if `best`; other checkpoints are deleted."""
        place = self.folder / f"epoch-{checkpoint.epoch}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        tensors = {name: value.contiguous() for name, value in checkpoint.model.items()}
        with atomic_write(place / MODEL) as file:
            file.write(save(tensors))
        with atomic_write(place / STATE) as file:
            torch.save(checkpoint.state, file)
        for name in ("last", *(["best"] if best else [])):
            write_text(self._pointer(name), json.dumps({"epoch": checkpoint.epoch}) + "\n")
        self._sweep()

    def load(self, name: str = "last") -> Checkpoint | None:
        """Load the checkpoint `last` or `best`; None if there is none yet."""
        epoch = self.epoch(name)
        if epoch is None:
            return None
        place = self.folder / f"epoch-{epoch}"
        if not place.is_dir():
            raise ValueError(f"{self._pointer(name)} names {place.name}, which does not exist")
        state = read_torch(place / STATE)
        if not isinstance(state, dict):
            raise FileError(f"{place / STATE} holds a {type(state).__name__}, not a dict")
        return Checkpoint(epoch, read_safetensors(place / MODEL), state)

    def epoch(self, name: str) -> int | None:
        """Return the epoch of the checkpoint `last` or `best`; None if there is none yet."""
        pointer = self._pointer(name)
        if not pointer.exists():
            return None
        found = read_json(pointer, POINTER_LIMIT)
        epoch = found.get("epoch") if isinstance(found, dict) else None
        if type(epoch) is not int or not 0 <= epoch < MOST_EPOCHS:
            raise FileError(f"{pointer} is damaged, and with it the run: it names no epoch")
        return epoch

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _pointer(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _sweep(self) -> None:
        """Delete superseded folders and partial files of a killed process."""
        remove_partials(self.folder)
        kept = {f"epoch-{self.epoch(name)}" for name in ("last", "best")}
        for place in self.folder.glob("epoch-*"):
            if place.name not in kept:
                shutil.rmtree(place, ignore_errors=True)
