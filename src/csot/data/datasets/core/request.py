"""What a data set is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DATA_DIR = Path("data")


@dataclass(frozen=True)
class Request:
    """Where the files of a data set are, and how they are read."""

    data_dir: Path = DATA_DIR
    download: bool = False
    """Whether files that are not there may be fetched."""
    image_size: int | None = None
    """Side of the images, where they are files; else the data set's own."""
    allow_outside: bool = False
    """Whether images outside of ``data_dir`` are read."""
    whole: bool = False
    """Whether training images are whole, for crops of all of them, or cut to squares."""
