"""Training runs of seconds: what the tests of the loop and of its commands share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file
from torch import Tensor
from typer.testing import CliRunner, Result

import csot.cli.app
from csot.data.datasets.core.dataset_registry import TestSet, TrainingData
from csot.data.samples import InMemory

SETTINGS = {
    "dataset.limit": 200,
    "training.epochs": 4,
    "network.width": 4,
    "warmup": 2,
    "supervised_epochs": 3,
}
"""CSOT on a part of the digits, through both stages."""
DIGITS = ("digits", "--noise", "sym:0.5", *(f"--set={k}={v}" for k, v in SETTINGS.items()))
SOURCE = Path(csot.cli.app.__file__).parents[2]


def command(*arguments: str | Path) -> Result:
    """In this process."""
    return CliRunner().invoke(csot.cli.app.app, [str(argument) for argument in arguments])


def fails(*arguments: str | Path) -> str:
    """The one line that says why."""
    result = command(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    line = result.stderr.strip().splitlines()[-1]
    assert line.startswith("error: ")
    return line


def started(*arguments: str | Path, launcher: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """In a process of its own, on one thread: sums then have one order."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen(
        [sys.executable, *launcher, "-m", "csot", *(str(argument) for argument in arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def finished(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return out


def metrics(run: Path) -> pd.DataFrame:
    """Without the time it took."""
    return pd.read_csv(run / "metrics.csv").drop(columns=["seconds", "relabel_seconds"])


def last_tensors(run: Path) -> dict[str, Tensor]:
    """All of the last checkpoint: the model, and the optimiser's."""
    (place,) = (run / "checkpoints").glob(f"epoch-{len(metrics(run))}")
    state = torch.load(place / "state.pt", weights_only=True)
    moments = {
        f"optimiser.{number}.{name}": torch.as_tensor(value)
        for number, values in state["optimiser"]["state"].items()
        for name, value in values.items()
        if value is not None
    }
    return {**load_file(place / "model.safetensors"), **moments}


def assert_same_run(one: Path, other: Path) -> None:
    """Bit for bit, but for the time."""
    pd.testing.assert_frame_equal(metrics(one), metrics(other), check_exact=True)
    for name in ("findings.csv", "probabilities.npy", "config.yaml"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    first, second = last_tensors(one), last_tensors(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def planted(rows: int = 120, classes: int = 3, dim: int = 5, wrong: int = 24) -> TrainingData:
    """Features of planted classes; the first labels are wrong, the last one is missing."""
    rng = np.random.default_rng(0)
    truth = np.arange(rows + 30) % classes
    features = 3.0 * rng.normal(size=(classes, dim))[truth] + rng.normal(size=(len(truth), dim))
    samples, right = torch.from_numpy(features).float(), torch.from_numpy(truth)
    labels = right[:rows].clone()
    labels[:wrong] = (labels[:wrong] + 1) % classes
    labels[-1] = -1
    return TrainingData(
        name="planted",
        train=InMemory(samples[:rows]),
        labels=labels,
        class_names=[f"class {c}" for c in range(classes)],
        ids=[f"row {row}" for row in range(rows)],
        tests=[TestSet("test", InMemory(samples[rows:]), right[rows:])],
        true_labels=right[:rows],
        source={"kind": "planted", "path": "planted"},
    )


def write_table(path: Path, wrong: int = 24) -> Path:
    """Features `a` to `e` of planted classes, and two columns of labels."""
    data = planted(wrong=wrong)
    names = np.array([*data.class_names, None], dtype=object)
    table = pd.DataFrame(data.train.batch(torch.arange(len(data))).numpy(), columns=list("abcde"))
    table["y"], table["z"] = names[data.labels.numpy()], names[data.true_labels.numpy()]  # type: ignore[union-attr]
    table.insert(0, "id", data.ids)
    table.to_csv(path, index=False)
    return path


FEATURES = {
    "epochs": 4,
    "batch_size": 16,
    "holdout": 0.1,
    "network.name": "mlp",
    "network.options": {"hidden": [16]},
    "learning_rate": 0.1,
}
"""For `planted`, by any method."""
