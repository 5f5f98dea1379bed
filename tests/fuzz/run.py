"""The long form: ``make fuzz``. Many inputs for each reader, in a process that may die of them.

    PYTHONPATH=tests python -m fuzz.run --inputs 100000 --out fuzz-out [--only NAME] [--seed 0]
        [--record FILE]

The readers take turns of some seconds, so that all of them are about equally far whenever it is
stopped. Goes on where it was interrupted, and with ``--record`` where another machine stopped.
Whatever escapes is kept in the folder: the damaged file, and a line in ``escapes.jsonl`` with the
number that makes it again.
"""

from __future__ import annotations

import argparse
import gc
import json
import mmap
import os
import resource
import signal
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fuzz.cases import SECONDS, Bench, made
from fuzz.targets import TARGETS, Target

ADDRESS_SPACE = 6 << 30
"""Bytes that a worker may reserve beyond what it has at the start."""
SAVED = 2.0
"""Seconds after which a worker writes down how far it is."""
MEMORY = Path("/dev/shm")
"""Where the files are damaged, if the system has a file system in memory there."""
PATIENCE = 30 * SECONDS
"""Seconds for one case, and for making the files before the first, whoever has the processor."""
FRESH = {
    "next": 0,
    "refused": 0,
    "deep": 0,
    "escapes": 0,
    "slowest": 0.0,
    "growth": 0,
    "seconds": 0.0,
    "cpu": 0.0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="for each reader")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="in all")
    parser.add_argument("--turn", type=float, default=20.0, help="seconds of a reader at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fuzz-out"))
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--record", type=Path, help="JSON to go on from, and to add this run to")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    targets = [target for target in TARGETS if not given.only or target.name in given.only]
    if given.record is not None and given.record.exists():
        go_on_from(given.record, targets, given.out, given.seed)
    end = time.monotonic() + given.seconds
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the folder
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=place) as name:
        left = targets
        gc.freeze()  # what is imported is neither searched for garbage nor copied by workers
        while left and time.monotonic() < end:
            left = [
                target
                for target in left
                if time.monotonic() > end
                or fuzz(target, Path(name), given.out, given.seed, given.inputs, given.turn)
            ]
    if given.record is not None:
        add_to(given.record, targets, given.out, given.seed)
    sys.exit(1 if table(targets, given.out, given.seed) else 0)


def go_on_from(record: Path, targets: list[Target], out: Path, seed: int) -> None:
    """Readers that were not run in this folder start where the record says."""
    known = json.loads(record.read_text())
    for target in targets:
        place = state_path(target, out, seed)
        if target.name in known and not place.exists():
            _write_state(place, known[target.name])


def add_to(record: Path, targets: list[Target], out: Path, seed: int) -> None:
    """Write how far each reader is; those that were not asked for stay as they are."""
    known = json.loads(record.read_text()) if record.exists() else {}
    for target in targets:
        place = state_path(target, out, seed)
        if place.exists():
            known[target.name] = read_state(place)
    record.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def table(targets: list[Target], out: Path, seed: int) -> int:
    """Print what was run; the number of escapes."""
    print(
        f"{'reader':46}{'inputs':>8}{'refused':>9}{'deep':>6}{'escapes':>9}{'slowest':>10}"
        f"{'growth':>10}{'per CPU second':>16}"
    )
    states = [(target.name, read_state(state_path(target, out, seed))) for target in targets]
    for name, state in states:
        count = max(state["next"], 1)
        print(
            f"{name:46}{state['next']:>8,}{state['refused'] / count:>9.0%}"
            f"{state['deep'] / count:>6.0%}{state['escapes']:>9,}{state['slowest']:>8.2f} s"
            f"{state['growth'] / 2**20:>7.0f} MB{count / max(state['cpu'], 1e-9):>16,.0f}"
        )
    total = {key: sum(state[key] for _, state in states) for key in FRESH}
    print(
        f"{total['next']:,} inputs, {total['escapes']:,} escapes, {total['cpu']:,.0f} CPU seconds"
    )
    return int(total["escapes"])


def fuzz(target: Target, root: Path, out: Path, seed: int, inputs: int, seconds: float) -> bool:
    """One turn of a reader; whether inputs are left. A worker that dies leaves its case behind."""
    place = state_path(target, out, seed)
    state = read_state(place)
    if state["next"] >= inputs:
        return False
    current = mmap.mmap(-1, 8)
    current.write(struct.pack("q", state["next"]))
    worker = os.fork()
    if worker == 0:
        _work(target, root, out, seed, inputs, seconds, place, current)
    try:
        status = _watch(worker, current)
    except BaseException:  # Ctrl-C, or the end of the job
        os.kill(worker, signal.SIGKILL)
        raise
    case = struct.unpack("q", current[:])[0]
    state = read_state(place)
    if status != 0:
        state.update(next=case + 1, escapes=state["escapes"] + 1)
        name, content = _left_damaged(target, root)
        _keep(out, target, seed, case, f"the worker ended with {status}", name, content)
        _write_state(place, state)
    return bool(state["next"] < inputs)


def _work(
    target: Target,
    root: Path,
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
        state = read_state(place)
        folder = root / _file_name(target)
        made(target, folder, root / f"{_file_name(target)}.valid")
        with Bench(target, folder) as bench:
            bench.find_first_checks()
            now, cpu = time.monotonic(), time.process_time()
            saved, end = now, now + seconds
            for case in range(state["next"], inputs):
                current[:] = struct.pack("q", case)
                found = bench.run(seed, case)
                state["next"] = case + 1
                state["refused"] += found.refused
                state["deep"] += found.deep
                state["slowest"] = max(state["slowest"], found.seconds)
                state["growth"] = max(state["growth"], found.growth)
                if found.escape:
                    state["escapes"] += 1
                    _keep(out, target, seed, case, found.escape, found.file, found.content)
                before, now = now, time.monotonic()
                state["seconds"] += now - before
                if now > saved + SAVED or now > end or case == inputs - 1:
                    spent, cpu = time.process_time() - cpu, time.process_time()
                    state["cpu"] += spent
                    saved = now
                    _write_state(place, state)
                if now > end:
                    break
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
        if time.monotonic() - since > PATIENCE:
            os.kill(worker, 9)
            os.waitpid(worker, 0)
            return 9
        time.sleep(0.05)


def _left_damaged(target: Target, root: Path) -> tuple[str, bytes]:
    """The file that a dead worker was reading."""
    folder, valid = root / _file_name(target), root / f"{_file_name(target)}.valid"
    for name in target.files:
        path = folder / name
        if path.exists() and (valid / name).exists():
            content = path.read_bytes()
            if content != (valid / name).read_bytes():
                return name, content
    return "", b""


def _file_name(target: Target) -> str:
    return target.name.replace("/", "_").replace(" ", "-")


def state_path(target: Target, out: Path, seed: int) -> Path:
    return out / f"{_file_name(target)}-{seed}.json"


def read_state(place: Path) -> dict[str, Any]:
    return {**FRESH, **(json.loads(place.read_text()) if place.exists() else {})}


def _write_state(place: Path, state: dict[str, Any]) -> None:
    """Whole or not at all: the process may be ended at any time."""
    new = place.with_suffix(".new")
    new.write_text(json.dumps(state))
    new.replace(place)


def _keep(
    out: Path, target: Target, seed: int, case: int, escape: str, file: str, content: bytes
) -> None:
    line = {"reader": target.name, "seed": seed, "case": case, "file": file, "escape": escape}
    with open(out / "escapes.jsonl", "a") as log:
        log.write(json.dumps(line) + "\n")
    name = f"{_file_name(target)}-{seed}-{case}"
    (out / f"{name}{Path(file).suffix}").write_bytes(content)


if __name__ == "__main__":
    main()
