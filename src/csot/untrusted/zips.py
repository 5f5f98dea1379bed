"""Zip archives whose members say how large they are, and are held to it."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from csot.untrusted.errors import FileError, naming
from csot.untrusted.files import check_expansion, check_file

MEMBERS = 100_000
ENCRYPTED = 0x1
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What NumPy and torch write; the decoders of the others unpack without a bound."""


@contextmanager
def open_zip(path: Path, what: str, remedy: str = "") -> Iterator[zipfile.ZipFile]:
    """The archive, once all of its members together have an honest size.

    `zipfile` never reads more of a member than its declared size, so the declaration is a bound.
    """
    held = check_file(path)
    with naming(path, what, remedy):
        archive = zipfile.ZipFile(path)
    with archive:
        members = archive.infolist()
        if len(members) > MEMBERS:
            raise FileError(f"{path} holds {len(members):,} members; at most {MEMBERS:,} are read")
        for info in members:
            if info.flag_bits & ENCRYPTED or info.compress_type not in METHODS:
                how = "encrypted" if info.flag_bits & ENCRYPTED else "compressed in another way"
                raise FileError(f"{path} holds {info.filename[:80]!r}, which is {how}: not read")
        check_expansion(path, sum(info.file_size for info in members), held)
        yield archive
