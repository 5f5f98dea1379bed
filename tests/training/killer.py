"""Trains, is killed, goes on, again and again. A script: killer.py FOLDER LIVES ARGUMENT...

FOLDER/whole is trained undisturbed. FOLDER/killed has as many lives as LIVES says, such as
`replace:3,fsync:7`: a life kills itself with SIGKILL at that call of `os.replace` or `os.fsync`, of
which a checkpoint takes several, so the kill comes before, between and after its files. Two more
lives are left in peace: one that finishes, and one that has nothing left to do.

Each life is a fork of this process, so that the packages are imported once.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from typer.testing import CliRunner

import csot.cli.app
import csot.cli.train
import csot.training.train


def doomed(real: Callable[..., Any], count: int) -> Callable[..., Any]:
    left = count

    def call(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)

    return call


def live(arguments: list[str], end: str | None = None) -> int:
    """How the process ended: 0, or minus the signal."""
    child = os.fork()
    if child == 0:
        if end is not None:
            function, _, count = end.partition(":")
            setattr(os, function, doomed(getattr(os, function), int(count)))
        result = CliRunner().invoke(csot.cli.app.app, ["train", *arguments])
        print(result.output, flush=True)
        os._exit(result.exit_code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    folder, lives, *arguments = sys.argv[1:]
    ends = [live([*arguments, "--out", f"{folder}/whole"])]
    killed = [*arguments, "--out", f"{folder}/killed", "--resume"]
    ends += [live(killed, end) for end in [*lives.split(","), None, None]]
    print("ENDS", *ends)


if __name__ == "__main__":
    main()
