"""A table that can tell methods apart: 10,000 real images, random and human-like noise.

    python benchmarks/harder.py OUT --data-dir DIR --labels NOISE.npz [--jobs 2] [--seeds 0 1 2]
    python benchmarks/harder.py OUT --table

DIR holds CIFAR-10, NOISE.npz wrong labels of its 50,000 training images by name (``idn-0.4``, or
``semantic-vgg``: labels that a weak network gave). Every method trains by the preset
``cifar10-small``, about a quarter of an hour on one core, two networks about twice that. Runs go
seed by seed, so that the table of the first seed is whole before the second begins. Finished runs
are kept, interrupted ones resumed: give the same command again. ``--table`` prints what there is.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from csot.data.datasets.registry import balanced_rows, read_training_data
from csot.data.types import TrainingData
from csot.methods.core.registry import find_ablation
from csot.training.presets import make_config
from csot.training.train import Source, train_configured

PRESET, ROWS = "cifar10-small", 10_000
ABLATIONS = tuple(f"csot@{letter}" for letter in "abcde")
METHODS = (
    *("csot", "csot@plus", "ssr", "cross_entropy", *ABLATIONS),
    *("elr", "nce", "dividemix"),
)
NOISES = ("sym:0.5", "sym:0.8", "idn-0.4", "semantic-vgg")


@dataclass(frozen=True)
class Run:
    """One run of the table."""

    out: Path
    method: str
    noise: str
    seed: int

    @property
    def folder(self) -> Path:
        return self.out / self.noise.replace(":", "-") / self.method / f"seed-{self.seed}"

    @property
    def accuracy(self) -> float | None:
        """Last test accuracy, if the run has ended."""
        summary = self.folder / "summary.json"
        if not summary.exists():
            return None
        return float(json.loads(summary.read_text())["test_accuracy_last"])


def images_with(noise: str, labels: Path | None, data_dir: Path) -> TrainingData:
    """10,000 images, as many of each true class; labels of the file where it has that name."""
    data = read_training_data("cifar10", data_dir=data_dir)
    rows = balanced_rows(data, ROWS, seed=0)
    if ":" not in noise:
        if labels is None:
            raise SystemExit(f"{noise} needs --labels FILE.npz")
        given = torch.from_numpy(np.load(labels)[noise].astype(np.int64))
        data = replace(data, labels=given, true_labels=data.labels)
    return data.take(rows)


def train_one(run: Run, data_dir: Path, labels: Path | None, epochs: int | None) -> None:
    """Train, on one thread; a run that was interrupted goes on."""
    torch.set_num_threads(1)
    method, _, letter = run.method.partition("@")
    settings = dict(find_ablation(letter).settings) if letter else {}
    if epochs is not None:
        settings["training.epochs"] = epochs
    noise = run.noise if ":" in run.noise else "none"
    config = make_config(
        "cifar10",
        method,
        preset=PRESET,
        noise=noise,
        seed=run.seed,
        overrides={"evaluate_every": 5, "checkpoint_every": 5, **settings},
    )
    data = images_with(run.noise, labels, data_dir)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train_configured(config, out=run.folder, data=data, source=Source(), resume=True)


def show(out: Path, methods: Sequence[str], noises: Sequence[str], seeds: Sequence[int]) -> None:
    """Mean and deviation of the last accuracies, in per cent, and how many seeds there are."""
    table = Table("method", *noises)
    for method in methods:
        cells = []
        for noise in noises:
            found = [Run(out, method, noise, seed).accuracy for seed in seeds]
            values = [100 * value for value in found if value is not None]
            spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.1f}{spread} ({len(values)})" if values else "")
        table.add_row(method, *cells)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--labels", type=Path, help=".npz of wrong labels by name")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--noise", nargs="+", default=list(NOISES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epochs", type=int, help="fewer than the preset's, for a trial")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="print what there is, train nothing")
    arguments = parser.parse_args()
    runs = [
        Run(arguments.out, method, noise, seed)
        for seed in arguments.seeds
        for noise in arguments.noise
        for method in arguments.methods
    ]
    missing = [] if arguments.table else [run for run in runs if run.accuracy is None]
    given = arguments.data_dir, arguments.labels, arguments.epochs
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs, mp_context=context) as pool:
        running = {pool.submit(train_one, run, *given): run for run in missing}
        for future in as_completed(running):
            run = running[future]
            future.result()
            print(f"{run.noise} {run.method} seed {run.seed}: {run.accuracy:.4f}", flush=True)
    show(arguments.out, arguments.methods, arguments.noise, arguments.seeds)


if __name__ == "__main__":
    main()
