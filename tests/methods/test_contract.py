"""What every method owes the loop. A new file in csot/methods is tested without being named."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from csot.data.datasets.digits import read_digits
from csot.data.datasets.registry import TrainingData
from csot.data.noise import parse_noise
from csot.methods import find_method, method_names
from csot.methods.core.contract import Judgement
from csot.training.checkpoint import Checkpoints
from csot.training.loop import Finished, Progress, run_loop
from csot.training.presets import make_config
from csot.training.train import with_noise

NAMES = method_names()
ROWS = 384
COMMON = {
    "batch_size": 32,
    "holdout": 0.1,
    "optimiser.learning_rate": 0.05,
}


def digits(noise: str = "sym:0.4", rows: int = ROWS) -> TrainingData:
    """Some rows of the digits; enough classes and few enough rows for seconds."""
    data = read_digits().take(torch.arange(rows))
    noisy = parse_noise(noise).apply(data, torch.Generator().manual_seed(1))
    return with_noise(data, noisy)


def settings_for(name: str, epochs: int) -> dict[str, Any]:
    """The preset's settings, with stages that fit so few epochs."""
    fields = find_method(name).Settings.model_fields
    short = {
        "warmup": max(1, 2 * epochs // 3),
        "supervised_epochs": max(2, epochs - 1),
        "simsiam_norm": "none",
        "first_stage": max(1, epochs // 2),
        "second_stage": 1,
    }
    return {key: value for key, value in short.items() if key in fields}


def train(
    name: str,
    data: TrainingData,
    folder: Path,
    epochs: int = 3,
    progress: Progress | None = None,
    norm: str = "none",
) -> Finished:
    network = {"name": "mlp", "width": 64, "options": {"norm": norm}}
    config = make_config(
        "digits",
        name,
        preset="digits",
        noise="sym:0.4",
        overrides={
            **COMMON,
            "epochs": epochs,
            "training.network": network,
            **settings_for(name, epochs),
        },
        machine={"accelerator": "cpu"},
    )
    return run_loop(config, data, Checkpoints(folder), progress or Progress())


def numbers(finished: Finished) -> list[dict[str, float | None]]:
    """What must be equal; a share of nothing is None, which equals itself."""
    return [
        {
            key: value if math.isfinite(value) else None
            for key, value in record.items()
            if key != "seconds"
        }
        for record in finished.history
    ]


class Killed(Exception):
    pass


@pytest.mark.parametrize("name", NAMES)
def test_losses_and_gradients_are_finite(name: str, tmp_path: Path) -> None:
    finished = train(name, digits(), tmp_path)
    for record in finished.history:
        losses = {key: value for key, value in record.items() if key.startswith("loss")}
        assert all(math.isfinite(value) for value in losses.values()), losses
    model = Checkpoints(tmp_path).load()
    assert model is not None
    # Infinity may stand for "no best yet".
    assert not any(bool(torch.isnan(value).any()) for value in model.model.values())


@pytest.mark.parametrize("name", NAMES)
def test_learns_clean_digits(name: str, tmp_path: Path) -> None:
    finished = train(name, digits("none", rows=1000), tmp_path, epochs=15, norm="batch")
    assert finished.history[-1]["test_accuracy"] > 0.8


@pytest.mark.parametrize("name", NAMES)
def test_state_survives_a_checkpoint(name: str, tmp_path: Path) -> None:
    whole = train(name, digits(), tmp_path / "whole", epochs=4)

    def stop(history: list[dict[str, float]]) -> None:
        if len(history) == 2:
            raise Killed

    with pytest.raises(Killed):
        train(name, digits(), tmp_path / "cut", epochs=4, progress=Progress(on_epoch=stop))
    resumed = train(name, digits(), tmp_path / "cut", epochs=4)
    assert numbers(resumed) == numbers(whole)
    assert torch.equal(resumed.judgement.posterior, whole.judgement.posterior)


@pytest.mark.parametrize("name", NAMES)
def test_true_labels_play_no_part(name: str, tmp_path: Path) -> None:
    data = digits()
    assert data.true_labels is not None
    shuffled = data.true_labels[torch.randperm(len(data))]
    curves = ("clean_accuracy", "corrected_accuracy", "clean_recall")
    found = [
        [
            {key: value for key, value in record.items() if key not in curves}
            for record in numbers(train(name, changed, tmp_path / str(number)))
        ]
        for number, changed in enumerate([data, replace(data, true_labels=shuffled)])
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("name", NAMES)
def test_judges_every_row(name: str, tmp_path: Path) -> None:
    judgement: Judgement = train(name, digits(), tmp_path).judgement
    posterior = judgement.posterior
    assert posterior.shape == (ROWS, 10)
    assert judgement.trusted.shape == judgement.scores.shape == (ROWS,)
    assert judgement.trusted.dtype == torch.bool
    assert bool((posterior >= 0).all())
    torch.testing.assert_close(posterior.sum(-1), torch.ones(ROWS), atol=1e-4, rtol=0)
    assert bool(((judgement.scores >= -1e-6) & (judgement.scores <= 1 + 1e-6)).all())


def test_says_what_it_is() -> None:
    for name in NAMES:
        method = find_method(name)
        assert method.about
        assert "\n" not in method.about
        assert len(method.about) < 100


def test_two_processes_equal_one(tmp_path: Path) -> None:
    """Same losses and accuracies for every method; both processes run this file's `main`."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # Tests import one another by name, as pytest's `pythonpath` lets them.
    paths = [str(Path(__file__).parents[1]), *sys.path]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    found = []
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        folder.mkdir()
        command = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        done = subprocess.run(
            [sys.executable, *command, __file__, str(folder)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found.append(json.loads((folder / "history.json").read_text()))
    one, two = found
    for name in NAMES:
        for record, other in zip(one[name], two[name], strict=True):
            assert set(record) == set(other), name
            for key, value in record.items():
                assert other[key] == pytest.approx(value, abs=1e-4), (name, key, record["epoch"])


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    histories = {}
    for name in NAMES:
        finished = train(name, digits(), folder / name)
        histories[name] = numbers(finished)
    if finished.is_first:
        (folder / "history.json").write_text(json.dumps(histories))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
