"""A table that can tell methods apart: 10,000 real images, random and human-like noise.

    python benchmarks/harder.py OUT --embeddings FILE.npz --labels NOISE.npz [--seeds 0 1 2]
    python benchmarks/harder.py OUT --data-dir DIR --labels NOISE.npz [--jobs 2] [--seeds 0 1 2]
    python benchmarks/harder.py OUT --table

FILE.npz holds embedded images of CIFAR-10 (`train`, `train_labels`, `test`, `test_labels`,
`class_names`), on which every method trains by the preset `features`, some minutes on one core.
DIR holds the images themselves, on which every method trains from scratch by the preset
`cifar10-small`, about a quarter of an hour on one core, two networks about twice that. NOISE.npz
has wrong labels of the 50,000 training images by name (`idn-0.4`, or `semantic-vgg`: labels that
a weak network gave).

Runs go seed by seed, so that the table of the first seed is whole before the second begins.
Finished runs are kept, interrupted ones resumed: give the same command again. ``--table`` prints
what there is.
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

from csot.data.datasets.core.dataset_registry import balanced_rows, read_training_data
from csot.data.samples import InMemory
from csot.data.types import TestSet, TrainingData
from csot.methods.core.method_registry import find_ablation
from csot.training.presets import make_config
from csot.training.train import Source, train_configured

ROWS = 10_000
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


@dataclass(frozen=True)
class Files:
    """Where images, embeddings and wrong labels are."""

    data_dir: Path
    embeddings: Path | None
    labels: Path | None

    @property
    def preset(self) -> str:
        return "features" if self.embeddings else "cifar10-small"

    def read(self, noise: str) -> TrainingData:
        """10,000 rows, as many of each true class; labels of the file where it has that name."""
        if self.embeddings is None:
            data = read_training_data("cifar10", data_dir=self.data_dir)
        else:
            data = read_embeddings(self.embeddings)
        truth = data.labels
        if ":" not in noise:
            if self.labels is None:
                raise SystemExit(f"{noise} needs --labels FILE.npz")
            given = torch.from_numpy(np.load(self.labels)[noise].astype(np.int64))
            data = replace(data, labels=given, true_labels=truth)
        return data.take(balanced_rows(truth, ROWS, seed=0))


def read_embeddings(path: Path) -> TrainingData:
    with np.load(path) as arrays:
        train, test = (torch.from_numpy(arrays[name]).float() for name in ("train", "test"))
        labels = torch.from_numpy(arrays["train_labels"].astype(np.int64))
        test_labels = torch.from_numpy(arrays["test_labels"].astype(np.int64))
        names = [str(name) for name in arrays["class_names"]]
    return TrainingData(
        name="cifar10",
        train=InMemory(train),
        labels=labels,
        class_names=names,
        ids=[str(row) for row in range(len(labels))],
        tests=[TestSet("test", InMemory(test), test_labels)],
    )


def train_one(run: Run, files: Files, epochs: int | None) -> None:
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
        preset=files.preset,
        noise=noise,
        seed=run.seed,
        overrides={"evaluate_every": 5, "checkpoint_every": 5, **settings},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = files.read(run.noise)
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
    parser.add_argument("--embeddings", type=Path, help=".npz to train on in place of the images")
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
    files = Files(arguments.data_dir, arguments.embeddings, arguments.labels)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs, mp_context=context) as pool:
        running = {pool.submit(train_one, run, files, arguments.epochs): run for run in missing}
        for future in as_completed(running):
            run = running[future]
            future.result()
            print(f"{run.noise} {run.method} seed {run.seed}: {run.accuracy:.4f}", flush=True)
    show(arguments.out, arguments.methods, arguments.noise, arguments.seeds)


if __name__ == "__main__":
    main()
