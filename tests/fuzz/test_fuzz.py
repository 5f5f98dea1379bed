"""The short form of the fuzzer: the first inputs of each reader, the same ones every time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.cases import Bench
from fuzz.run import add_to, fuzz, go_on_from
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


def test_a_record_goes_on_in_another_folder(tmp_path: Path) -> None:
    target = next(target for target in TARGETS if target.name == "matrix-csv")
    here, there, record = tmp_path / "here", tmp_path / "there", tmp_path / "record.json"
    for folder in (here, there, tmp_path / "files"):
        folder.mkdir()
    record.write_text('{"another": {"next": 7}}')
    assert not fuzz(target, tmp_path / "files", here, seed=0, inputs=5, seconds=60)
    add_to(record, [target], here, seed=0)
    go_on_from(record, [target], there, seed=0)
    assert fuzz(target, tmp_path / "files", there, seed=0, inputs=5, seconds=60) is False
    assert fuzz(target, tmp_path / "files", there, seed=0, inputs=8, seconds=60) is False
    add_to(record, [target], there, seed=0)
    found = json.loads(record.read_text())
    assert found["another"] == {"next": 7}
    assert found["matrix-csv"]["next"] == 8
    assert found["matrix-csv"]["escapes"] == 0
