"""An interrupted write leaves the old file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import csot
from csot._core.files import remove_partials
from csot.runs import Run, atomic_write
from csot.runs.tables import write_csv

# A bare `csot`, so that the child does not import torch, which takes a second.
WITHOUT_TORCH = """
import sys, types
sys.modules["csot"] = csot = types.ModuleType("csot")
csot.__path__ = [sys.argv[1]]
from csot.runs import Run, atomic_write
assert "torch" not in sys.modules
"""
ENDLESS_WRITE = (
    WITHOUT_TORCH
    + """
import pathlib, time
with atomic_write(pathlib.Path(sys.argv[2])) as file:
    while True:
        file.write(b"new" * 100_000)
        file.flush()
        print("writing", flush=True)
        time.sleep(0.01)
"""
)
ENDLESS_RUN = (
    WITHOUT_TORCH
    + """
import pandas as pd
run = Run(__import__("pathlib").Path(sys.argv[2]))
first = run.read_findings()
second = pd.concat([first, first.set_axis(first.index + len(first))]).rename_axis("id")
while True:
    run.write_findings(second)
    print("writing", flush=True)
    run.write_findings(first)
"""
)


def start(program: str, target: Path) -> subprocess.Popen[bytes]:
    """A writer in a process of its own, once it is in the middle of it."""
    package = str(Path(csot.__file__).parent)
    writer = subprocess.Popen(
        [sys.executable, "-c", program, package, str(target)], stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    for _ in range(2):
        assert writer.stdout.readline() == b"writing\n"
    return writer


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a POSIX signal")
@pytest.mark.parametrize("existed", [True, False])
def test_a_killed_writer_leaves_the_old_file(tmp_path: Path, existed: bool) -> None:
    target = tmp_path / "findings.csv"
    if existed:
        target.write_bytes(b"old")
    with start(ENDLESS_WRITE, target) as writer:
        writer.kill()
    assert writer.returncode == -signal.SIGKILL
    assert target.exists() == existed
    assert not existed or target.read_bytes() == b"old"
    assert len(list(tmp_path.glob(".*.partial"))) == 1
    remove_partials(tmp_path)
    assert sorted(tmp_path.iterdir()) == ([target] if existed else [])


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a POSIX signal")
def test_a_run_is_whole_whenever_its_writer_is_killed(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    n = 500
    run.write_findings(
        pd.DataFrame(
            {
                "given_label": ["a"] * n,
                "predicted_label": ["a"] * n,
                "corrected_label": ["a"] * n,
                "is_label_issue": False,
                "label_score": 0.9,
                "confidence": 0.9,
                "status": "clean",
                "note": "",
            }
        )
    )
    rng = np.random.default_rng(0)
    for _ in range(5):
        with start(ENDLESS_RUN, run.path) as writer:
            time.sleep(rng.uniform(0, 0.05))
            writer.kill()
        found = run.read_findings()
        assert len(found) in (n, 2 * n)
        parquet = run.path / "findings.parquet"
        if parquet.exists():
            assert len(pd.read_parquet(parquet)) == len(found)
        run.write_findings(found.iloc[:n])


def test_an_error_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "summary.json"
    target.write_bytes(b"old")

    def write_half() -> None:
        with atomic_write(target) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_table_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run.create(tmp_path / "run")
    run.write_samples(pd.DataFrame({"text": ["old"]}))

    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    with pytest.raises(OSError, match="no space"):
        run.write_samples(pd.DataFrame({"text": ["new"]}))
    monkeypatch.undo()
    back = run.read_samples()
    assert back is not None
    assert back["text"].tolist() == ["old"]


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_the_usual_permissions(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", pd.DataFrame({"a": [1]}))
    (tmp_path / "b.csv").write_text("a\n1\n", encoding="utf-8")
    assert (tmp_path / "a.csv").stat().st_mode == (tmp_path / "b.csv").stat().st_mode
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
