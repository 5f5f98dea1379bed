"""Threads sleep while they wait where csot loads torch, and are few where it came too late."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import csot
from csot._core import threads

SOURCE = Path(csot.__file__).parents[1]


def outcome(code: str, **chosen: str) -> str:
    """What it prints in an interpreter of its own, with two threads and only these choices."""
    kept = {name: value for name, value in os.environ.items() if name not in threads.CHOICES}
    environment = {**kept, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "2", **chosen}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


STATE = "; print(os.environ.get('OMP_WAIT_POLICY'), threads._are_passive(), 'torch' in sys.modules)"
IMPORTS = "import os, sys, csot; from csot._core import threads; "


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("pass", "None False False"),
        ("csot.solve", "None True True"),
        ("import csot.cli", "PASSIVE True False"),
        ("import torch; csot.solve; import csot.cli", "None False True"),
    ],
    ids=["import csot", "a public name", "a command", "torch first"],
)
def test_who_loads_torch_decides(code: str, printed: str) -> None:
    assert outcome(IMPORTS + code + STATE) == printed


@pytest.mark.parametrize(
    ("name", "value", "is_passive"),
    [
        ("OMP_WAIT_POLICY", "ACTIVE", False),
        ("OMP_WAIT_POLICY", "passive", True),
        ("GOMP_SPINCOUNT", "0", True),
        ("GOMP_SPINCOUNT", "100", False),
        ("KMP_BLOCKTIME", "0", True),
    ],
)
def test_what_the_user_chose_is_left_alone(
    name: str, value: str, is_passive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for choice in threads.CHOICES:
        monkeypatch.delenv(choice, raising=False)
    monkeypatch.setattr(threads, "_made_passive", False)
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setenv(name, value)
    threads.wait_passively()
    threads.load_torch()
    assert {key: os.environ[key] for key in threads.CHOICES if key in os.environ} == {name: value}
    assert threads._are_passive() is is_passive


@pytest.fixture
def spinning(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two threads that spin, as for users who import torch first."""
    for choice in threads.CHOICES:
        monkeypatch.delenv(choice, raising=False)
    monkeypatch.setattr(threads, "_made_passive", False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("spinning")
def test_a_small_problem_gets_one_thread_and_gives_the_others_back() -> None:
    with threads.threads_for(threads.SMALL):
        assert torch.get_num_threads() == 1
        with threads.threads_for(1):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with threads.threads_for(threads.SMALL + 1):
        assert torch.get_num_threads() == 2
    with pytest.raises(ZeroDivisionError), threads.threads_for(1):
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("spinning")
def test_threads_of_python_do_not_disturb_one_another() -> None:
    inside, leave = threading.Event(), threading.Event()
    counts: list[int] = []

    def work() -> None:
        torch.set_num_threads(2)
        with threads.threads_for(1):
            inside.set()
            leave.wait(30)
        counts.append(torch.get_num_threads())

    worker = threading.Thread(target=work)
    worker.start()
    assert inside.wait(30)
    with threads.threads_for(1):
        leave.set()
        worker.join()
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    assert counts == [2]


@pytest.mark.usefixtures("spinning")
def test_passive_threads_are_not_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(threads.POLICY, "PASSIVE")
    with threads.threads_for(1):
        assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("spinning")
def test_passive_threads_are_reduced_for_many_short_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(threads.POLICY, "PASSIVE")
    with threads.threads_for(10, small_if_passive=10):
        assert torch.get_num_threads() == 1
    with threads.threads_for(11, small_if_passive=10):
        assert torch.get_num_threads() == 2
    monkeypatch.delenv(threads.POLICY)
    with threads.threads_for(threads.SMALL + 1, small_if_passive=threads.SMALL + 1):
        assert torch.get_num_threads() == 2
