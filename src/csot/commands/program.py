"""How the user's shell finds this program."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def program() -> list[str]:
    """`csot` where that is this program, else its path: `.venv/bin/csot` in a checkout."""
    folder = Path(sys.executable).parent
    found = shutil.which("csot")
    if found is not None and Path(found).resolve().parent == folder.resolve():
        return ["csot"]
    script = folder / "csot"
    if not script.exists():
        return [sys.executable, "-m", "csot"]
    return [str(script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script)]
