"""The long form: ``make fuzz``. Many inputs for each reader, in a process that may die of them.

    PYTHONPATH=tests python -m fuzz.run --inputs 100000 --out fuzz-out [--only NAME] [--seed 0]

Goes on where it was interrupted. Whatever escapes is kept in the folder: the damaged file, and a
line in ``escapes.jsonl`` with the number that makes it again.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import resource
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fuzz.cases import SECONDS, run_case
from fuzz.targets import TARGETS, Target

ADDRESS_SPACE = 6 << 30
"""Bytes that a worker may reserve beyond what it has at the start."""
SAVED = 200
"""Cases after which a worker writes down how far it is."""
FRESH = {"next": 0, "refused": 0, "escapes": 0, "slowest": 0.0, "growth": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fuzz-out"))
    parser.add_argument("--only", action="append", default=[])
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    escapes = 0
    print(f"{'reader':42}{'inputs':>8}{'refused':>9}{'escapes':>9}{'slowest':>10}{'growth':>10}")
    for target in TARGETS:
        if given.only and target.name not in given.only:
            continue
        state = fuzz(target, given.out, given.seed, given.inputs, given.seconds)
        escapes += state["escapes"]
        print(
            f"{target.name:42}{state['next']:>8,}{state['refused']:>9,}{state['escapes']:>9,}"
            f"{state['slowest']:>8.2f} s{state['growth'] / 2**20:>7.0f} MB",
            flush=True,
        )
    sys.exit(1 if escapes else 0)


def fuzz(target: Target, out: Path, seed: int, inputs: int, seconds: float) -> dict[str, Any]:
    """All cases of one reader; a worker that dies is replaced, and its case is an escape."""
    place = out / f"{target.name.replace('/', '_').replace(' ', '-')}-{seed}.json"
    started = time.monotonic()
    state = json.loads(place.read_text()) if place.exists() else dict(FRESH)
    while state["next"] < inputs and time.monotonic() - started < seconds:
        current = mmap.mmap(-1, 8)
        current.write(struct.pack("q", state["next"]))
        worker = os.fork()
        if worker == 0:
            left = seconds - (time.monotonic() - started)
            _work(target, out, seed, inputs, left, place, current)
        status = _watch(worker, current)
        case = struct.unpack("q", current[:])[0]
        state = json.loads(place.read_text()) if place.exists() else dict(FRESH)
        if status != 0:
            state.update(next=case + 1, escapes=state["escapes"] + 1)
            _keep(out, target, seed, case, f"the worker ended with {status}", "", b"")
            place.write_text(json.dumps(state))
    return state


def _work(
    target: Target,
    out: Path,
    seed: int,
    inputs: int,
    seconds: float,
    place: Path,
    current: mmap.mmap,
) -> None:
    """In the child. Never returns."""
    code = 1
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)  # C libraries complain there
        used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
        resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE, used + ADDRESS_SPACE))
        state = json.loads(place.read_text()) if place.exists() else dict(FRESH)
        end = time.monotonic() + seconds
        with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
            folder = Path(name)
            target.make(folder)
            target.read(folder)
            for case in range(state["next"], inputs):
                current[:] = struct.pack("q", case)
                found = run_case(target, folder, seed, case)
                state["next"] = case + 1
                state["refused"] += found.refused
                state["slowest"] = max(state["slowest"], found.seconds)
                state["growth"] = max(state["growth"], found.growth)
                if found.escape:
                    state["escapes"] += 1
                    _keep(out, target, seed, case, found.escape, found.file, found.content)
                if case % SAVED == 0:
                    place.write_text(json.dumps(state))
                if time.monotonic() > end:
                    break
        place.write_text(json.dumps(state))
        code = 0
    finally:
        os._exit(code)


def _watch(worker: int, current: mmap.mmap) -> int:
    """The status of the worker; one that hangs in a C library is ended."""
    seen, since = b"", time.monotonic()
    while True:
        found, status = os.waitpid(worker, os.WNOHANG)
        if found:
            return status
        if current[:] != seen:
            seen, since = current[:], time.monotonic()
        # The first case comes after the files are made.
        if time.monotonic() - since > 6 * SECONDS:
            os.kill(worker, 9)
            os.waitpid(worker, 0)
            return 9
        time.sleep(0.05)


def _keep(
    out: Path, target: Target, seed: int, case: int, escape: str, file: str, content: bytes
) -> None:
    line = {"reader": target.name, "seed": seed, "case": case, "file": file, "escape": escape}
    with open(out / "escapes.jsonl", "a") as log:
        log.write(json.dumps(line) + "\n")
    name = f"{target.name.replace('/', '_').replace(' ', '-')}-{seed}-{case}"
    (out / f"{name}{Path(file).suffix}").write_bytes(content)


if __name__ == "__main__":
    main()
