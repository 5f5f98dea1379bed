"""Processes that need not import the packages first: forks of a server that has.

Importing takes a training process several times as long as training does in a test. Each worker of
pytest has one server, which it shares with `csot compare --jobs`. The server has computed nothing,
so it has no threads that a fork could not use.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

PACKAGES = [
    "csot.training.compare",
    "csot.training.train",
    "csot.cli.app",
    "csot.cli.train",
    "lightning_fabric",
    "torch.distributed",
    "matplotlib.backends.backend_agg",
    "sklearn.datasets",
    "sklearn.model_selection",
]


def preload() -> None:
    """For all processes that are started by "forkserver" from now on."""
    multiprocessing.set_forkserver_preload(PACKAGES)


def started(target: Callable[..., None], *arguments: Any, log: Path) -> BaseProcess:
    """A process that calls ``target``; what it and its own forks print goes to ``log``."""
    preload()
    process = multiprocessing.get_context("forkserver").Process(
        target=_call, args=(target, arguments, str(log))
    )
    process.start()
    return process


def _call(target: Callable[..., None], arguments: tuple[Any, ...], log: str) -> None:
    with open(log, "w", buffering=1) as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        sys.stdout = sys.stderr = file
        torch.set_num_threads(1)  # sums then have one order
        try:
            target(*arguments)
        except Exception:
            traceback.print_exc()
            raise


def finished(processes: list[BaseProcess], timeout: float = 600) -> list[int | None]:
    """How they ended: 0, minus a signal, or None for one that was stopped because it hangs."""
    for process in processes:
        process.join(timeout)
    ends = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    return ends
