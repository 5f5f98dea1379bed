"""Where results go without `--out`: beside nothing of the user's, named after the data."""

from __future__ import annotations

import re
from pathlib import Path

RUN, FIXED, COMPARISON = "run", "fixed", "compare"


def default_out(data: Path | str, ending: str) -> Path:
    """`photos/` and `run` -> `photos-run`, in the current folder unless that is the data's own."""
    path = Path(data).resolve()
    name = path.name if path.exists() else str(data)
    stem = name if path.is_dir() else name.partition(".")[0]
    safe = re.sub(r"[^\w.-]+", "-", stem).strip("-.") or "data"
    is_within = path.is_dir() and Path.cwd().is_relative_to(path)
    return (path.parent if is_within else Path()) / f"{safe}-{ending}"
