"""The short form of the fuzzer: the first inputs of each reader, the same ones every time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fuzz.cases import run_case
from fuzz.targets import TARGETS, Target

INPUTS = 150
BUDGET = 0.4
"""Seconds of CPU for each reader, whatever else runs on the machine; slow ones get fewer inputs."""


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_damaged_files_are_refused_in_one_line(target: Target, tmp_path: Path) -> None:
    target.make(tmp_path)
    target.read(tmp_path)  # the whole file is read
    end = time.process_time() + BUDGET
    for case in range(INPUTS):
        found = run_case(target, tmp_path, 0, case)
        assert not found.escape, f"case {case} of {target.name}: {found.escape}"
        if time.process_time() > end:
            break
