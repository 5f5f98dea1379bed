"""The short form of the fuzzer: the first inputs of each reader, the same ones every time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.cases import Bench
from fuzz.targets import TARGETS, Target

INPUTS = 150
LEAST = 4
BUDGET = 0.08
"""Seconds of the processor for each reader; slow ones get fewer inputs, but LEAST."""


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Target], Path]:
    """Readers of the same files share a folder, and leave it as it was."""
    made: dict[Callable[[Path], None], Path] = {}

    def folder(target: Target) -> Path:
        if target.make not in made:
            made[target.make] = tmp_path_factory.mktemp("fuzz")
            target.make(made[target.make])
        return made[target.make]

    return folder


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_damaged_files_are_refused_in_one_line(
    target: Target, folder_of: Callable[[Target], Path]
) -> None:
    with Bench(target, folder_of(target)) as bench:
        end = time.process_time() + BUDGET
        for case in range(INPUTS):
            found = bench.run(0, case)
            assert not found.escape, f"case {case} of {target.name}: {found.escape}"
            if case >= LEAST and time.process_time() > end:
                break
