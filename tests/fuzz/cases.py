"""One damaged file, read under limits of time and memory, and what came of it."""

from __future__ import annotations

import random
import resource
import signal
import time
import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from csot.cli.terminal import EXPECTED
from fuzz.targets import Target

SECONDS = 10
GROWTH = 1 << 30
"""Bytes beyond the size of the file."""
LONGEST = 4000
"""Characters of a message that still is a line."""


class TooSlow(BaseException):
    """Not an `Exception`: no reader may take it for a damaged file."""


@dataclass(frozen=True)
class Outcome:
    """``escape`` says what a reader did that none may do; empty where all is well."""

    escape: str
    refused: bool
    seconds: float
    growth: int
    file: str
    content: bytes


def damaged(target: Target, folder: Path, seed: int, case: int) -> tuple[str, bytes, bytes]:
    """The file of a case, its content, and its content before."""
    rng = random.Random(f"{seed} {target.name} {case}")
    name = rng.choice(list(target.files))
    whole = (folder / name).read_bytes()
    return name, target.files[name](rng, whole), whole


def run_case(target: Target, folder: Path, seed: int, case: int) -> Outcome:
    """The file is put back afterwards."""
    name, content, whole = damaged(target, folder, seed, case)
    (folder / name).write_bytes(content)
    reset_peak()
    before = peak()
    escape, refused = "", False
    start = time.perf_counter()
    previous = signal.signal(signal.SIGALRM, _too_slow)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(folder)
    except EXPECTED as error:
        refused = True
        escape = unclear(str(error), folder, name)
    except TooSlow:
        escape = f"over {SECONDS} s"
    except BaseException:
        escape = traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        seconds = time.perf_counter() - start
        growth = peak() - before
        (folder / name).write_bytes(whole)
    if growth > GROWTH + len(content):
        escape = escape or f"{growth:,} bytes of memory for {len(content):,}"
    return Outcome(escape, refused, seconds, growth, name, content)


def unclear(message: str, folder: Path, name: str) -> str:
    """Why a message is not one clear line that names the file, or its folder; else empty."""
    if len(message) > LONGEST:
        return f"a message of {len(message):,} characters"
    if str(folder) not in message and Path(name).name not in message:
        return f"names no file: {message}"
    return ""


def reset_peak() -> None:
    """Of this process's memory, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """Bytes of memory at most, since the last reset."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise TooSlow
