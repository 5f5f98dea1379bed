"""What other processes on the machine cost: alone, beside a busy process, several at once.

Each task runs as a process of its own, as `csot` does, for each way in which OpenMP threads may
wait. A ratio near 2 beside one busy process per core, or near n for n at once, is what sharing the
cores must cost; more than that is lost by waiting.

    python benchmarks/busy.py --tasks clean train --repeats 3
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_NUM_THREADS")
WAYS = {
    "csot": {},
    "spinning": {"OMP_WAIT_POLICY": "ACTIVE", "GOMP_SPINCOUNT": "300000"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}
"""As installed; as torch does by itself (libgomp spins 300,000 times by default); on one thread."""
FIT = """
import sys
import torch
import numpy as np
import csot
data = np.load(sys.argv[1])
csot.LabelCleaner(progress=False).fit(data["features"], data["labels"])
"""
"""A library user, who imports torch first."""


def commands(folder: Path) -> dict[str, list[str]]:
    """Program and arguments by task; OUT stands for a folder of each process's own."""
    csot = [sys.executable, "-m", "csot"]
    for name, rows, dim in (("small", 500, 64), ("large", 50_000, 256)):
        rng = np.random.default_rng(0)
        truth = rng.integers(0, 10, rows)
        features = rng.normal(size=(10, dim))[truth] + 2 * rng.normal(size=(rows, dim))
        labels = np.where(rng.random(rows) < 0.3, rng.integers(0, 10, rows), truth)
        np.savez(folder / f"{name}.npz", features=features.astype(np.float32), labels=labels)
    digits = ["digits", "--noise", "sym:0.5", "--limit", "500", "--set", "epochs=6"]
    return {
        "clean": [*csot, "clean", str(folder / "small.npz"), "--out", "OUT"],
        "clean-large": [*csot, "clean", str(folder / "large.npz"), "--out", "OUT"],
        "train": [*csot, "train", *digits, "--out", "OUT"],
        "library": [sys.executable, "-c", FIT, str(folder / "small.npz")],
    }


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """That do nothing but keep a core busy."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def seconds(command: list[str], way: dict[str, str], at_once: int, limit: float) -> float:
    """Until the last of `at_once` processes is done; infinite if that takes beyond `limit`."""
    kept = {name: value for name, value in os.environ.items() if name not in CHOICES}
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        running = [
            subprocess.Popen(
                [part.replace("OUT", f"{folder}/{number}") for part in command],
                env={**kept, **way},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for number in range(at_once)
        ]
        try:
            for process in running:
                left = limit - (time.perf_counter() - start)
                if process.wait(timeout=max(left, 0.01)):
                    raise RuntimeError(f"{command} failed with {process.returncode}")
        except subprocess.TimeoutExpired:
            return float("inf")
        finally:
            for process in running:
                process.kill()
                process.wait()
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tasks", nargs="+", default=["clean", "train", "library"])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--limit", type=float, default=600, help="Seconds before giving up.")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{'task':12s} {'threads':11s} {'alone':>8s} {'beside one':>17s} {'at once':>17s}")
    found = []
    with tempfile.TemporaryDirectory() as name:
        tasks = commands(Path(name))
        for task in args.tasks:
            for way in args.ways:
                row: dict[str, object] = {"task": task, "threads": way}
                for column, busy, at_once in (
                    ("alone", 0, 1),
                    ("beside one", 1, 1),
                    (f"{args.at_once} at once", 0, args.at_once),
                ):
                    with busy_processes(busy):
                        row[column] = statistics.median(
                            seconds(tasks[task], WAYS[way], at_once, args.limit)
                            for _ in range(args.repeats)
                        )
                found.append(row)
                alone, beside, together = (float(str(value)) for value in list(row.values())[2:])
                print(
                    f"{task:12s} {way:11s} {alone:7.1f}s {beside:7.1f}s (x{beside / alone:5.2f})"
                    f" {together:7.1f}s (x{together / alone:5.2f})",
                    flush=True,
                )
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
