"""SIGKILL for real, and `--resume`: the same numbers as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path

import pytest

import forks
from csot.training.checkpoint import Checkpoints
from training.killer import live_and_die
from training.quick import DIGITS, assert_same_run

ARGUMENTS = (*DIGITS, "--set=epochs=6", "--quiet")
# A life begins with two renames and four syncs, for the marker (if there is none) and the
# configuration; an epoch has four or five renames, two syncs for each. So these kills come within
# all that is written, of the first life, of checkpoints, of metrics and of the results.
LIVES = (
    "fsync:1,fsync:3,replace:1,replace:3,fsync:5,replace:5,replace:7,fsync:13,replace:10,fsync:30"
)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    moment = random.Random(int.from_bytes(os.urandom(4), "big")).uniform(0, 0.4)
    log = folder / "log"
    arguments = (str(folder), LIVES, moment, list(ARGUMENTS))
    assert forks.finished([forks.started(live_and_die, *arguments, log=log)]) == [0], (
        log.read_text()
    )
    ends = [int(end) for end in (folder / "ends").read_text().split()]
    *chosen, outside, resumed = ends
    wanted = [0, *[-signal.SIGKILL] * len(LIVES.split(",")), 0, 0]
    assert chosen == wanted, log.read_text()
    # It may have been quicker than the kill.
    assert outside in (-signal.SIGKILL, 0), log.read_text()
    assert resumed == 0, log.read_text()
    return folder


def test_killed_while_it_writes(runs: Path) -> None:
    assert_same_run(runs / "whole", runs / "killed")
    summaries = [
        json.loads((runs / name / "summary.json").read_text()) for name in ("whole", "killed")
    ]
    for key in ("test_accuracy_last", "test_accuracy_best", "best_epoch", "n_corrected"):
        assert summaries[0][key] == summaries[1][key]
    assert list((runs / "killed").rglob("*.partial")) == [], "nothing half-written is left"


def test_killed_from_outside_at_random(runs: Path) -> None:
    assert Checkpoints(runs / "left").load() is not None
    assert_same_run(runs / "whole", runs / "outside")
