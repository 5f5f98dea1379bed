"""Many runs that differ in method, noise and seed only, each in a folder of its own.

What is finished is left alone and what was interrupted goes on, so the same command may be given
again at any time, with more methods or seeds too.
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from csot.methods.core.registry import find_ablation
from csot.runs import Run
from csot.training.config import RunConfig
from csot.training.folder import RunFolder
from csot.training.presets import make_config
from csot.training.train import Source, train_configured

CELLS = "cells"


@dataclass(frozen=True)
class Cell:
    """One run of a comparison. `csot@c` is the ablation (c) of CSOT."""

    method: str
    noise: str
    seed: int

    def place(self, root: Path) -> Path:
        return root / CELLS / self.method / self.noise.replace(":", "-") / f"seed-{self.seed}"


@dataclass(frozen=True)
class Comparison:
    """What all cells have in common."""

    data: str
    out: Path
    preset: str | None = None
    settings: Mapping[str, Any] | None = None
    source: Source = field(default_factory=Source)
    machine: Mapping[str, Any] | None = None
    own_recipes: bool = False
    """Each method with the epochs, optimiser and network of its own section of the preset."""

    def config(self, cell: Cell) -> RunConfig:
        method, _, letter = cell.method.partition("@")
        extra = find_ablation(letter).settings if letter else {}
        if letter and method != "csot":
            raise ValueError(f"method {cell.method!r}: only csot has ablations")
        # `csot.epsilon` is for csot alone, `epochs` for every method.
        given = {
            key.removeprefix(f"{method}."): value
            for key, value in (self.settings or {}).items()
            if key.partition(".")[0] in (method, "training", "dataset") or "." not in key
        }
        return make_config(
            self.data,
            method,
            preset=self.preset,
            noise=cell.noise,
            seed=cell.seed,
            overrides={**given, **extra},
            machine=self.machine,
            own_training=self.own_recipes,
        )


def run_cells(
    comparison: Comparison, cells: Sequence[Cell], jobs: int
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Each cell with its summary, as it gets done; `jobs` processes of one thread each."""
    # All settings are checked before the first run begins.
    configs = {cell: comparison.config(cell) for cell in cells}
    missing = []
    for cell, config in configs.items():
        summary = finished(cell.place(comparison.out), config)
        if summary is None:
            missing.append(cell)
        else:
            yield cell, summary
    if jobs == 1:
        for cell in missing:
            yield cell, _run(comparison, cell, None)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        running = {pool.submit(_run, comparison, cell, 1): cell for cell in missing}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        finally:
            # After an error or Ctrl-C: what has not begun need not begin.
            pool.shutdown(wait=False, cancel_futures=True)


def finished(place: Path, config: RunConfig) -> dict[str, Any] | None:
    """The summary of a finished run of the same configuration."""
    if not (place / "summary.json").exists():
        return None
    kept = RunFolder(place).read_config()
    if kept.identity() != config.identity():
        raise ValueError(
            f"{place} holds a run with other settings: choose another --out, or delete that folder"
        )
    return Run.open(place).read_summary()


def _run(comparison: Comparison, cell: Cell, threads: int | None) -> dict[str, Any]:
    if threads is not None:
        torch.set_num_threads(threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = train_configured(
            comparison.config(cell),
            out=cell.place(comparison.out),
            source=comparison.source,
            resume=True,
        )
    return done.summary
