"""What is printed of the work before it is done, and the warning of a long run."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from csot.training import train
from csot.training.progress import Progress
from csot.training.time_estimate import TimeEstimate, Workload, duration
from training.quick import FEATURES, planted

WORK = Workload("resnet8", 1, 1_234_567, rows=100, epochs=10, batch_size=10, device="cpu")


class Clock:
    """Seconds that the test passes by hand."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def steps(work: Workload, seconds: float, count: int = 10) -> list[float]:
    """The estimates of an epoch, each step of which takes so long."""
    clock, found = Clock(), []
    estimate = TimeEstimate(work, found.append, clock)
    clock.time = 30.0  # reading the data and allocating memory is not part of a step
    for step in range(1, count + 1):
        clock.time += seconds
        estimate.step(step)
    estimate.epoch(work.done + 1)
    return found


def test_the_first_steps_and_then_the_epochs() -> None:
    first, second = steps(WORK, 2.0)
    assert first == pytest.approx(2.0 * (100 - 4))
    assert second == pytest.approx((30 + 20) * 9)


def test_short_steps_are_measured_longer() -> None:
    assert steps(WORK, 0.25)[0] == pytest.approx(0.25 * (100 - 5))
    assert steps(WORK, 0.01) == [pytest.approx((30 + 0.1) * 9)], "by the first epoch alone"


def test_a_resumed_run_has_less_to_do() -> None:
    assert steps(replace(WORK, done=8), 2.0)[0] == pytest.approx(2.0 * (20 - 4))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_long_run_on_a_cpu_is_warned_of_once(device: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        steps(replace(WORK, device=device, epochs=450), 60.0)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == (device == "cpu")
    assert all("about 3.1 days on a CPU: use a GPU, fewer epochs" in text for text in messages)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "0 seconds"),
        (1, "1 second"),
        (89, "89 seconds"),
        (120, "2 minutes"),
        (5399, "90 minutes"),
        (5400, "1.5 hours"),
        (7200, "2 hours"),
        (100_000, "28 hours"),
        (172_800, "2 days"),
        (2_000_000, "23 days"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_real_run_says_what_it_does(tmp_path: Path) -> None:
    said: list[Workload | float] = []
    progress = Progress(on_ready=said.append, on_estimate=said.append)
    settings = {**FEATURES, "epochs": 2}
    train(
        planted(),
        out=tmp_path / "run",
        method="co_teaching",
        settings=settings,
        progress=progress,
    )
    workload, *estimates = said
    assert isinstance(workload, Workload)
    # Two networks of 5 inputs, 16 hidden units and 3 classes.
    assert workload.parameters >= 2 * (5 * 16 + 16 * 3)
    assert workload.words().startswith("2 x mlp with ")
    assert workload.words().endswith("on cpu: 2 epochs of 109 rows")
    assert len(estimates) == 2
    assert estimates[-1] == 0
