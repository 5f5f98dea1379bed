"""One damaged file, read under limits of time and memory, and what came of it."""

from __future__ import annotations

import random
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

import csot
from csot.cli.terminal import EXPECTED
from fuzz.targets import Target

SECONDS = 10
"""Of the processor: other processes must not make a reader look slow."""
GROWTH = 1 << 30
"""Bytes beyond the size of the file."""
LONGEST = 4000
"""Characters of a message that still is a line."""
GARBAGE = (b"", bytes(8), random.Random(0).randbytes(200))
"""What refuses these is the first check of a reader."""
CHECKSUMS = ("zipfile.py", "gzip.py")
"""Files of the standard library that refuse damaged archives before their content is looked at."""
OWN = str(Path(csot.__file__).parent)


class TooSlow(BaseException):
    """Not an `Exception`: no reader may take it for a damaged file."""


@dataclass(frozen=True)
class Outcome:
    """``escape`` says what a reader did that none may do; empty where all is well.

    An input is ``deep`` if the first check of the reader let it pass.
    """

    escape: str
    refused: bool
    deep: bool
    seconds: float
    growth: int
    file: str
    content: bytes


class Bench:
    """A target in a folder of its own, ready to read one damaged file after the other.

    The valid files are kept in memory. A damaged file stays until another one is to be damaged.
    """

    def __init__(self, target: Target, folder: Path) -> None:
        self._target, self._folder = target, folder
        target.read(folder)
        self._whole = {name: (folder / name).read_bytes() for name in target.files}
        self._names = list(target.files)
        self._damaged: str | None = None
        self._peak = reset_peak()
        self._first: set[tuple[str, object]] = set()

    def __enter__(self) -> Bench:
        self._previous = signal.signal(signal.SIGPROF, _too_slow)
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.simplefilter("ignore")
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        self._warnings.__exit__(None, None, None)
        signal.signal(signal.SIGPROF, self._previous)

    def find_first_checks(self) -> None:
        """Where garbage is refused: without it, all inputs count as deep."""
        for name in self._names:
            for content in GARBAGE:
                _, place = self._read(name, content)
                if place is not None:
                    self._first.add(place)

    def run(self, seed: int, case: int) -> Outcome:
        """The same number makes the same input."""
        rng = random.Random(f"{seed} {self._target.name} {case}")
        name = rng.choice(self._names)
        content = self._target.files[name](rng, self._whole[name])
        start = time.process_time()
        escape, place = self._read(name, content)
        seconds = time.process_time() - start
        growth = peak() - self._peak
        if growth > 0:
            self._peak = reset_peak()
        if growth > GROWTH + len(content):
            escape = escape or f"{growth:,} bytes of memory for {len(content):,}"
        deep = place is None or not self._is_first(place)
        return Outcome(escape, place is not None, deep, seconds, growth, name, content)

    def _read(self, name: str, content: bytes) -> tuple[str, tuple[str, object] | None]:
        """What escaped, and where the file was refused."""
        if self._damaged != name:
            self._restore()
        (self._folder / name).write_bytes(content)
        self._damaged = name
        escape, place = "", None
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            self._target.read(self._folder)
        except EXPECTED as error:
            place = place_of(error)
            escape = unclear(str(error), self._folder, name)
        except TooSlow:
            escape = f"over {SECONDS} s"
        except BaseException:
            escape = traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        return escape, place

    def _is_first(self, place: tuple[str, object]) -> bool:
        return place in self._first or Path(place[0]).name in CHECKSUMS

    def _restore(self) -> None:
        if self._damaged is not None:
            (self._folder / self._damaged).write_bytes(self._whole[self._damaged])
            self._damaged = None


def place_of(error: BaseException) -> tuple[str, object]:
    """File and line of csot, or file and function of a library, that raised the first error."""
    while (earlier := error.__cause__ or error.__context__) is not None:
        error = earlier
    trace: TracebackType | None = error.__traceback__
    if trace is None:
        return ("", 0)
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    is_own = code.co_filename.startswith(OWN)
    return code.co_filename, trace.tb_lineno if is_own else code.co_name


def made(target: Target, folder: Path, valid: Path) -> None:
    """Fill ``folder``; ``valid`` keeps a copy, for the process that comes after one that died."""
    if valid.exists():
        shutil.rmtree(folder)
        shutil.copytree(valid, folder)
    else:
        folder.mkdir()
        target.make(folder)
        shutil.copytree(folder, valid)


def unclear(message: str, folder: Path, name: str) -> str:
    """Why a message is not one clear line that names the file, or its folder; else empty."""
    if len(message) > LONGEST:
        return f"a message of {len(message):,} characters"
    if str(folder) not in message and Path(name).name not in message:
        return f"names no file: {message}"
    return ""


def reset_peak() -> int:
    """Forget how much memory this process had, where the system can; the bytes it has now."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    """Bytes of memory at most, since the last reset."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise TooSlow
