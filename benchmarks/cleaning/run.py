"""Rivals and csot on cells, each from its own store where it is there already."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from cleaning import ours
from cleaning.cells import Cell, digest
from cleaning.measures import Record, describe, measure, measure_verdict
from cleaning.store import Store
from rivals.by_probe import judge_by_probe, judge_probabilities
from rivals.judge import BY_PROBE, VOTES, judge_all
from rivals.neighbours import Neighbours, nearest
from rivals.probe import cross_validate
from rivals.verdict import Floats, Scores, Task

Say = Callable[[str], None]


@dataclass(frozen=True)
class Cache:
    """Arrays that several cells need and that are slow to make: neighbours, probabilities."""

    folder: Path
    version: str

    def neighbours(self, queries: Floats, features: Floats, *, leave_one_out: bool) -> Neighbours:
        file = self._file("neighbours", digest(queries, features), "npz")
        if file.exists():
            with np.load(file) as held:
                return Neighbours(held["index"], held["similarity"], float(held["seconds"]))
        found = nearest(queries, features, max(VOTES), leave_one_out=leave_one_out)
        np.savez(file, **vars(found))
        return found

    def probs(self, task: Task) -> Scores:
        """Held-out probabilities of the cross-validated probe."""
        file = self._file("probs", digest(task.features, task.given) + f"-{task.seed}", "npy")
        if not file.exists():
            with torch.no_grad():
                fitted = cross_validate(task.features, task.given, task.n_classes, task.seed)
            self.keep_probs(task, fitted.probs)
        return np.load(file).astype(np.float64)

    def keep_probs(self, task: Task, probs: Scores) -> None:
        key = digest(task.features, task.given) + f"-{task.seed}"
        np.save(self._file("probs", key, "npy"), probs.astype(np.float32))

    def _file(self, kind: str, key: str, ending: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{kind}-{self.version}-{key}.{ending}"


def run_rivals(
    cell: Cell, store: Store, cache: Cache, say: Say, *, by_probe_only: bool = False
) -> Record:
    """Every rival's measures on the cell, or only those of the rivals that judge by the probe.

    A stored record of every rival that no longer counts is not replaced by one of a few.
    """
    fingerprint = cell.fingerprint()
    held = store.get(cell.key, fingerprint)
    enough = by_probe_only or cell.space == "probs"
    if held is not None and (enough or not set(BY_PROBE).issuperset(held["rivals"])):
        return held
    by_probe_only = by_probe_only and set(BY_PROBE).issuperset(store.names(cell.key, "rivals"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _on_probabilities(cell, cache) if cell.space == "probs" else None
        if found is None:
            found = (_by_probe if by_probe_only else _on_features)(cell, cache, say)
    return store.put(cell.key, fingerprint, describe(cell) | {"rivals": found})


def _on_features(cell: Cell, cache: Cache, say: Say) -> dict[str, Record]:
    task = cell.task
    own = cache.neighbours(task.features, task.features, leave_one_out=True)
    test = cache.neighbours(task.test, task.features, leave_one_out=False)
    say(f"neighbours {own.seconds + test.seconds:.1f} s")
    verdicts, fitted = judge_all(task, own, test, say)
    cache.keep_probs(task, fitted.probs)
    return {name: measure_verdict(cell, verdict) for name, verdict in verdicts.items()}


def _by_probe(cell: Cell, cache: Cache, say: Say) -> dict[str, Record]:
    task, start = cell.task, time.perf_counter()
    with torch.no_grad():
        fitted = cross_validate(task.features, task.given, task.n_classes, task.seed)
        seconds = time.perf_counter() - start
        say(f"probe {seconds:.1f} s")
        verdicts = judge_by_probe(task, fitted, seconds)
    cache.keep_probs(task, fitted.probs)
    return {name: measure_verdict(cell, verdict) for name, verdict in verdicts.items()}


def _on_probabilities(cell: Cell, cache: Cache) -> dict[str, Record]:
    given, probs = cell.task.given, cache.probs(cell.task)
    return {
        name: measure(
            cell,
            score=score,
            flagged=flagged,
            corrected=np.where(flagged, probs.argmax(1), given),
            noise_rate=float(flagged.mean()),
            test=None,
            seconds=None,
        )
        for name, (score, flagged) in judge_probabilities(given, probs).items()
    }


def run_ours(cell: Cell, store: Store, cache: Cache, verified_counts: list[int]) -> Record:
    """csot's measures; a stored record counts only if it has the verified rows asked for."""
    fingerprint = cell.fingerprint()
    held = store.get(cell.key, fingerprint)
    if held is not None:
        known = {point["verified"] for point in held["csot"].get("curve", [])}
        if set(verified_counts) <= known or "curve" not in held["csot"]:
            return held
    if cell.space == "probs":
        record = ours.judge_probabilities(cell, cache.probs(cell.task), verified_counts)
    else:
        record = ours.judge_features(cell, verified_counts)
    return store.put(cell.key, fingerprint, record)


def as_probabilities(cell: Cell) -> Cell:
    """The same cell, to be judged by the probe's probabilities alone."""
    return replace(cell, space="probs")
