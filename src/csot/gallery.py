"""Runs on digits for figures without runs of the user: small, kept and resumed.

They show what each figure looks like within minutes; digits are too easy to rank methods by.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot._core.pictures import read_rgb
from csot.clean import clean_dataset
from csot.data.datasets.digits import read_digits
from csot.data.noise import parse_noise
from csot.figures.catalogue import DemoGroup
from csot.runs.run import SUMMARY
from csot.training.compare import ComparisonCell, Recipe, list_cells, run_cells
from csot.training.from_config import generator_for
from csot.training.results import write_pictures

OnStep = Callable[[str, int, int], None]

NOISE = "sym:0.5"
"""Noise of the runs; with more, not every method learns in so few epochs."""
EPOCHS = {
    "epochs": 12,
    "dataset.limit": 1000,
    "csot.warmup": 3,
    "csot.supervised_epochs": 8,
    "nce.warmup": 4,
    "dividemix.warmup": 4,
}
"""Settings of all runs: the figures share what they can."""
METHODS = ("csot", "nce", "dividemix")
TRANSPORTS = ("csot@a", "csot@b", "csot@c", "csot")
KAPPAS, EPSILONS = (0.0, 10.0, 100.0), (0.02, 0.5)
"""Beside the default values, 1 and 0.1."""
CLEANING_NOISE = "instance:0.3"
VERIFIED = (0, 25, 100, 400)
SEED = 0


@dataclass(frozen=True)
class DemoRuns:
    """Folders of finished runs, and the true labels where the runs do not know them."""

    runs: tuple[Path, ...]
    truth: Path | None = None


def pixels(paths: list[Path]) -> npt.NDArray[np.float32]:
    """An embedder for images this small: the pixels themselves."""
    grey = [np.asarray(read_rgb(path, 8).convert("L")).ravel() for path in paths]
    return np.stack(grey).astype(np.float32) / np.float32(255)


def demo_runs(
    group: DemoGroup,
    folder: Path,
    on_step: OnStep = lambda *_: None,
    also: Collection[DemoGroup] = (),
) -> DemoRuns:
    """The runs of one group in `folder`; what is finished there is not run again.

    Training runs of the groups `also` are made too: starting processes takes longer than a run.
    """
    if group in ("cleaning", "verified"):
        counts = VERIFIED[:1] if group == "cleaning" else VERIFIED
        return _cleaning(folder / "cleaning", counts, on_step)
    mine = _cells(group)
    cells = dict.fromkeys([*mine, *(cell for other in also for cell in _cells(other))])
    out = _trained(folder, EPOCHS, list(cells), on_step)
    return DemoRuns(tuple(cell.folder(out) for cell in mine))


def _cells(group: DemoGroup) -> list[ComparisonCell]:
    """The training runs of a group; none for those that are cleaned."""
    names: Mapping[str, Sequence[str]] = {"methods": METHODS, "transports": TRANSPORTS}
    varied: Mapping[str, Mapping[str, Sequence[float]]] = {
        "kappa": {"csot.coherence": KAPPAS},
        "epsilon": {"csot.epsilon": EPSILONS},
    }
    if group in varied:
        usual = list_cells(["csot"], [NOISE], [SEED])
        return [*usual, *list_cells(["csot"], [NOISE], [SEED], varied[group])]
    return list_cells(names.get(group, ()), [NOISE], [SEED])


def _trained(
    folder: Path, settings: Mapping[str, Any], cells: Sequence[ComparisonCell], on_step: OnStep
) -> Path:
    """Runs of the same settings share a folder, so that other settings do not meet them."""
    words = json.dumps(dict(settings), sort_keys=True)
    out = folder / "training" / hashlib.sha256(words.encode()).hexdigest()[:12]
    recipe = Recipe(data="digits", out=out, preset="digits", settings=settings)
    for done, (cell, _) in enumerate(run_cells(recipe, cells, min(2, os.cpu_count() or 1)), 1):
        on_step(f"training {cell.name} {cell.noise}", done, len(cells))
    return out


def _cleaning(folder: Path, counts: Sequence[int], on_step: OnStep) -> DemoRuns:
    """Cleaning runs on pictures of digits, with the given numbers of verified rows."""
    table, truth = _write_data(folder / "data")
    found = []
    for done, count in enumerate(counts, 1):
        out = folder / f"verified-{count}"
        found.append(out)
        if not (out / SUMMARY).exists():
            verified = _write_verified(folder / f"verified-{count}.csv", truth, count)
            clean_dataset(
                table,
                out,
                label="label",
                image="image",
                id="image",
                embedder="csot.gallery:pixels",
                verified=verified,
                seed=SEED,
            )
        on_step(f"cleaning with {count} verified rows", done, len(counts))
    return DemoRuns(tuple(found), truth)


def _write_data(folder: Path) -> tuple[Path, Path]:
    """Digits as PNG files, a table of their noisy labels, and beside it one of the true labels."""
    folder.mkdir(parents=True, exist_ok=True)
    table, truth = folder / "labels.csv", folder.parent / "truth.csv"
    data = read_digits()
    noisy = parse_noise(CLEANING_NOISE).apply(data, generator_for(SEED))
    names = write_pictures(data.train, np.arange(len(data)), folder / "images")
    images = [f"images/{names[row]}" for row in range(len(data))]
    true = data.labels.tolist()
    pd.DataFrame({"image": images, "label": noisy.labels.tolist()}).to_csv(table, index=False)
    pd.DataFrame({"id": images, "true_label": true}).to_csv(truth, index=False)
    return table, truth


def _write_verified(path: Path, truth: Path, count: int) -> Path | None:
    """The true labels of some rows at random, as a reviewer would have decided."""
    if not count:
        return None
    known = pd.read_csv(truth).sample(count, random_state=SEED).sort_index()
    known.rename(columns={"true_label": "label"}).to_csv(path, index=False)
    return path
