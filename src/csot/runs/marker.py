"""run.json marks a folder as a run: the format, the types of ids and labels, and `excel_safe`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from csot._core.errors import FileError, clip
from csot._core.files import read_json, write_text
from csot.runs.summary import dumps
from csot.runs.tables import KINDS, Kind

FORMAT = 1
MARKER = "run.json"
MARKER_LIMIT = 1 << 16
"""Largest size in bytes; a marker has about 80."""


def read_marker(folder: Path) -> dict[str, Any]:
    """The entries of the marker; none where the folder has no marker."""
    path = folder / MARKER
    marker = read_json(path, MARKER_LIMIT) if path.exists() else {}
    if not isinstance(marker, dict):
        raise FileError(f"{path} is not the marker of a run: it must be a JSON object")
    if marker.get("format", FORMAT) != FORMAT:
        raise ValueError(
            f"{folder} has format {clip(str(marker['format']))} and this csot reads "
            f"{FORMAT}: use the csot that wrote it"
        )
    for name in ("id_kind", "label_kind"):
        if marker.get(name, "text") not in KINDS:
            kind = clip(str(marker[name]))
            raise FileError(f"{path}: {name} is {kind}; {', '.join(KINDS)} are known")
    return dict(marker)


def update_marker(folder: Path, **entries: Kind | bool) -> None:
    """Add entries; the file is written only if that changes it."""
    marker = read_marker(folder)
    wanted = {"format": FORMAT, **marker, **entries}
    if wanted != marker:
        write_text(folder / MARKER, dumps(wanted) + "\n")
