"""Trains, is killed, goes on, again and again.

FOLDER/whole is trained undisturbed. FOLDER/killed has as many lives as `lives` says, such as
`replace:3,fsync:7`: a life kills itself with SIGKILL at that call of `os.replace` or `os.fsync`, of
which a checkpoint takes several, so the kill comes before, between and after its files. Two more
lives are left in peace: one that finishes, and one that has nothing left to do.

FOLDER/outside is killed by another process, this one, `seconds` after its first checkpoint; what it
leaves is copied to FOLDER/left, and a second life finishes it.

Each life is a fork of this process, so that the packages are imported once.
"""

import importlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import csot.cli.app
import csot.cli.train
import csot.training.train
from csot.ot.inner import newton_choice


def doomed(real: Callable[..., Any], count: int) -> Callable[..., Any]:
    left = count

    def call(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)

    return call


def born(arguments: list[str], end: str | None = None, modules: Path | None = None) -> int:
    """The number of a process that trains; what it has imported at the end goes to ``modules``."""
    child = os.fork()
    if child == 0:
        if end is not None:
            function, _, count = end.partition(":")
            setattr(os, function, doomed(getattr(os, function), int(count)))
        result = CliRunner().invoke(csot.cli.app.app, ["train", *arguments])
        print(result.output, flush=True)
        if modules is not None:
            modules.write_text("\n".join(sys.modules))
        os._exit(result.exit_code)
    return child


def ended(child: int) -> int:
    """How the process ended: 0, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def import_all(modules: Path) -> None:
    """What a life imports as it goes, so that the next ones need not."""
    for name in modules.read_text().split():
        with suppress(ImportError):  # some are made by their parent and not found by name
            importlib.import_module(name)


def kill(child: int, checkpoint: Path, seconds: float) -> None:
    """From outside, ``seconds`` after the first checkpoint; or it has ended by itself."""
    while not checkpoint.exists():
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(0.002)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)


def live_and_die(folder: str, lives: str, seconds: float, arguments: list[str]) -> None:
    """Writes how each life ended to FOLDER/ends."""
    modules = Path(folder) / "modules"
    newton_choice.is_available()  # loads what is compiled, which each life would do
    ends = [ended(born([*arguments, "--out", f"{folder}/whole"], modules=modules))]
    import_all(modules)
    killed = [*arguments, "--out", f"{folder}/killed", "--resume"]
    ends += [ended(born(killed, end)) for end in [*lives.split(","), None, None]]
    outside = [*arguments, "--out", f"{folder}/outside", "--resume"]
    child = born(outside)
    kill(child, Path(folder, "outside/checkpoints/last.json"), seconds)
    ends.append(ended(child))
    shutil.copytree(f"{folder}/outside/checkpoints", f"{folder}/left")
    ends.append(ended(born(outside)))
    Path(folder, "ends").write_text(" ".join(map(str, ends)))
