"""Repeatable examples, little garbage collection, and the reasons why tests were skipped."""

from __future__ import annotations

import gc
import importlib
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

import pytest
import typer.testing
from hypothesis import find, settings
from hypothesis.strategies import integers

# The same examples every time: a red test is a change's fault, not chance's.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# What is imported and collected stays until the end: millions of objects, among which Python would
# look for garbage again and again.
gc.disable()

# `CliRunner.invoke` reads the signatures of all commands anew each time, where a program reads them
# once; the many tests that run a command would spend longer on that than on most of the commands.
typer.testing._get_command = cache(typer.testing._get_command)

# Where nothing is compiled yet, two workers that import the same in the same order compile all of
# it twice. So every other one begins with what torch, with which its fellow begins, does not need.
if int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 2:
    for package in ("scipy.stats", "pandas", "sklearn.linear_model", "sympy", "numba", "networkx"):
        with suppress(ImportError):
            importlib.import_module(package)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    # With its first example Hypothesis registers its random generator, and old versions warn if
    # they find nothing that refers to it: they do not find what is frozen.
    find(integers(), lambda _: True)
    gc.freeze()
    gc.callbacks.append(_freeze_what_stays)
    gc.enable()


def _freeze_what_stays(phase: str, info: dict[str, int]) -> None:
    """What outlives a full collection is mostly what tests have imported: it is searched once."""
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """After everything else that is reported, coverage included."""
    yield
    reasons = Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)  # else an expected failure
    )
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}")
