"""The short form of the fuzzer: the first inputs of each reader, the same ones every time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fuzz.cases import Bench
from fuzz.targets import TARGETS, Target

INPUTS = 150
BUDGET = 1.0
"""Seconds for each reader; slow ones get fewer inputs."""


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_damaged_files_are_refused_in_one_line(target: Target, tmp_path: Path) -> None:
    target.make(tmp_path)
    end = time.monotonic() + BUDGET
    with Bench(target, tmp_path) as bench:
        for case in range(INPUTS):
            found = bench.run(0, case)
            assert not found.escape, f"case {case} of {target.name}: {found.escape}"
            if time.monotonic() > end:
                break
