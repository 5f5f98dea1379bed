"""What every method owes the loop. A new file in csot/methods is tested without being named."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch

import forks
from csot.data.datasets.core.dataset_registry import TrainingData
from csot.data.datasets.digits import read_digits
from csot.data.noise import parse_noise
from csot.methods import find_method, method_names
from csot.methods.core.contract import Judgement
from csot.training.checkpoint import Checkpoints
from csot.training.loop import Finished, run_loop
from csot.training.presets import make_config
from csot.training.progress import Progress
from csot.training.train import with_noise

NAMES = method_names()
ROWS = 192
COMMON = {
    "batch_size": 32,
    "holdout": 0.1,
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
        "head_norm": "none",
        "first_stage": max(1, epochs // 2),
        "second_stage": 1,
        "plus_epochs": max(1, epochs // 3),
    }
    return {key: value for key, value in short.items() if key in fields}


def train(
    name: str,
    data: TrainingData,
    folder: Path,
    epochs: int = 4,
    progress: Progress | None = None,
    norm: str = "none",
    rate: float = 0.05,
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
            "optimiser.learning_rate": rate,
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
            if key not in ("seconds", "relabel_seconds")
        }
        for record in finished.history
    ]


class Killed(Exception):
    pass


@dataclass(frozen=True)
class Trained:
    finished: Finished
    folder: Path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trained]:
    """One undisturbed run of each method, for all that is asked of it."""

    @cache
    def run(name: str) -> Trained:
        folder = tmp_path_factory.mktemp(name)
        return Trained(train(name, digits(), folder), folder)

    return run


@pytest.mark.parametrize("name", NAMES)
def test_losses_and_gradients_are_finite(name: str, trained: Callable[[str], Trained]) -> None:
    run = trained(name)
    for record in run.finished.history:
        losses = {key: value for key, value in record.items() if key.startswith("loss")}
        assert all(math.isfinite(value) for value in losses.values()), losses
    model = Checkpoints(run.folder).load()
    assert model is not None
    # Infinity may stand for "no best yet".
    assert not any(bool(torch.isnan(value).any()) for value in model.model.values())


@pytest.mark.parametrize("name", NAMES)
def test_learns_clean_digits(name: str, tmp_path: Path) -> None:
    data = digits("none", rows=1000)
    finished = train(name, data, tmp_path, epochs=10, norm="batch", rate=0.1)
    assert finished.history[-1]["test_accuracy"] > 0.8


def without_truth(finished: Finished) -> list[dict[str, float | None]]:
    """Without the curves that are measured with true labels."""
    curves = ("clean_accuracy", "corrected_accuracy", "clean_recall")
    return [
        {key: value for key, value in record.items() if key not in curves}
        for record in numbers(finished)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_state_survives_a_checkpoint_and_true_labels_play_no_part(
    name: str, trained: Callable[[str], Trained], tmp_path: Path
) -> None:
    """Stopped half-way and resumed, with other true labels before and after: the same numbers."""
    data = digits()
    assert data.true_labels is not None
    first, second = (
        replace(data, true_labels=data.true_labels[torch.randperm(len(data))]) for _ in range(2)
    )

    def stop(history: list[dict[str, float]]) -> None:
        if len(history) == 2:
            raise Killed

    with pytest.raises(Killed):
        train(name, first, tmp_path, progress=Progress(on_epoch=stop))
    resumed, whole = train(name, second, tmp_path), trained(name).finished
    assert without_truth(resumed) == without_truth(whole)
    assert torch.equal(resumed.judgement.posterior, whole.judgement.posterior)


@pytest.mark.parametrize("name", NAMES)
def test_judges_every_row(name: str, trained: Callable[[str], Trained]) -> None:
    judgement: Judgement = trained(name).finished.judgement
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


@pytest.fixture(scope="session")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two processes train by every method, one after the other: both run `main`.

    They mostly wait for each other, so other tests run meanwhile. One worker of pytest starts them.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / "two-processes"
    try:
        folder.mkdir()
    except FileExistsError:
        yield folder
        return
    # Their server imports the packages before it answers: that too goes on beside the tests.
    with ThreadPoolExecutor(1) as starter:
        ranks = starter.submit(_start_two_processes, folder)
        yield folder
    assert forks.finished(ranks.result()) == [0, 0], _said(folder)


@pytest.fixture(scope="session", autouse=True)
def _begun_early(request: pytest.FixtureRequest) -> None:
    """With the first test of this file, if one that needs their answer will follow."""
    if any("shared" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("two_processes")


def _start_two_processes(folder: Path) -> list[BaseProcess]:
    """What torchrun tells its processes, to forks that have imported the packages."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    logs = [folder / f"{rank}.log" for rank in range(2)]
    return [forks.started(main, folder, rank, port, log=log) for rank, log in enumerate(logs)]


def _said(folder: Path) -> str:
    return "".join(log.read_text()[-3000:] for log in sorted(folder.glob("*.log")))


@pytest.fixture(scope="session")
def shared(two_processes: Path) -> dict[str, list[dict[str, float | None]]]:
    """What they make of every method, as soon as they have said so."""
    end = time.monotonic() + 600
    while not (two_processes / "history.json").exists():
        assert not (two_processes / "failed").exists(), _said(two_processes)
        assert time.monotonic() < end, _said(two_processes)
        time.sleep(0.05)
    histories: dict[str, list[dict[str, float | None]]]
    histories = json.loads((two_processes / "history.json").read_text())
    return histories


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_equal_one(
    name: str,
    trained: Callable[[str], Trained],
    shared: dict[str, list[dict[str, float | None]]],
) -> None:
    """Same losses and accuracies."""
    for record, other in zip(numbers(trained(name).finished), shared[name], strict=True):
        assert set(record) == set(other)
        for key, value in record.items():
            assert other[key] == pytest.approx(value, abs=1e-4), (key, record["epoch"])


def main(folder: Path, rank: int, port: int) -> None:
    """One of two processes: trains by every method."""
    told = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "WORLD_SIZE": 2,
        "LOCAL_WORLD_SIZE": 2,
        "GROUP_RANK": 0,
        "TORCHELASTIC_RUN_ID": "contract",
        "RANK": rank,
        "LOCAL_RANK": rank,
    }
    os.environ.update({name: str(value) for name, value in told.items()})
    histories = {}
    try:
        for name in NAMES:
            finished = train(name, digits(), folder / name)
            histories[name] = numbers(finished)
    except BaseException:
        (folder / "failed").touch()
        raise
    if finished.is_first:
        written = folder / "history.part"
        written.write_text(json.dumps(histories))
        written.rename(folder / "history.json")
