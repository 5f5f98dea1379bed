"""The short form of the fuzzer: the first inputs of each reader, the same ones every time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.cases import Bench
from fuzz.run import FRESH, add_to, go_on_from, read_state, state_path
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
    target, other = TARGETS[:2]
    here, there, record = tmp_path / "here", tmp_path / "there", tmp_path / "record.json"
    here.mkdir()
    there.mkdir()
    record.write_text(json.dumps({other.name: {"next": 7}}))
    state_path(target, here, 0).write_text('{"next": 5}')
    state_path(other, there, 0).write_text('{"next": 9}')
    add_to(record, [target], here, seed=0)
    go_on_from(record, [target, other], there, seed=0)
    assert read_state(state_path(target, there, 0)) == {**FRESH, "next": 5}
    # A folder that has its own state keeps it.
    assert read_state(state_path(other, there, 0))["next"] == 9
    add_to(record, [target, other], there, seed=0)
    found = json.loads(record.read_text())
    assert {name: state["next"] for name, state in found.items()} == {
        target.name: 5,
        other.name: 9,
    }
