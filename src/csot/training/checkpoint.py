"""Checkpoints that a kill at any moment cannot harm.

Each checkpoint is a folder of its own, `epoch-12`, with the model in safetensors and the rest in a
file of plain tensors and numbers. Two small files, `last.json` and `best.json`, name the folder
that counts; each is replaced in one stroke after everything it names is on the disk.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from csot.records.atomic import atomic_write, remove_partials, write_text

MODEL = "model.safetensors"
STATE = "state.pt"


@dataclass(frozen=True)
class Checkpoint:
    """Of the end of an epoch."""

    epoch: int
    model: dict[str, Tensor]
    state: dict[str, Any]
    """Optimiser, history and the like: tensors, numbers, text, lists and dicts only."""


class Checkpoints:
    """The folder `checkpoints` of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, checkpoint: Checkpoint, *, best: bool) -> None:
        """Make it the last one, and the best one if so; what neither names is deleted."""
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
        """`last` or `best`; None if there is none yet."""
        epoch = self.epoch(name)
        if epoch is None:
            return None
        place = self.folder / f"epoch-{epoch}"
        if not place.is_dir():
            raise ValueError(f"{self._pointer(name)} names {place.name}, which is not there")
        try:
            return Checkpoint(
                epoch,
                load_file(place / MODEL),
                torch.load(place / STATE, map_location="cpu", weights_only=True),
            )
        except (OSError, RuntimeError, EOFError, UnpicklingError, SafetensorError) as error:
            first = str(error).partition("\n")[0]
            raise ValueError(f"{place} cannot be read: {first}") from error

    def epoch(self, name: str) -> int | None:
        pointer = self._pointer(name)
        if not pointer.exists():
            return None
        try:
            return int(json.loads(pointer.read_text(encoding="utf-8"))["epoch"])
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{pointer} is damaged, and with it the run: {error}") from error

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _pointer(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _sweep(self) -> None:
        """Remove superseded folders, and what a killed process left."""
        remove_partials(self.folder)
        kept = {f"epoch-{self.epoch(name)}" for name in ("last", "best")}
        for place in self.folder.glob("epoch-*"):
            if place.name not in kept:
                shutil.rmtree(place, ignore_errors=True)
