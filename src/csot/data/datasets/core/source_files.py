"""Files of public data sets: fetched over https and checked, or listed in text files.

A download is there entirely or not at all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from pathlib import Path, PurePosixPath
from typing import IO

from rich.console import Console
from rich.progress import Progress

from csot._core.errors import DataError, DataWarning, naming, reason
from csot._core.files import read_text
from csot._core.pictures import ALLOW_OUTSIDE, OUTSIDE, Containment

SCHEMES = ("https",)
CHUNK = 1 << 20
LARGEST = 1 << 30
"""Bytes that an archive may unpack to; the largest official one has 185 MB."""
BLOCK = 512
"""Bytes of a header in a .tar file."""
TIMEOUT = 60
"""Seconds without a byte."""


@dataclass(frozen=True)
class Archive:
    """A public .tar.gz and the folder that it unpacks to."""

    url: str
    md5: str
    folder: str

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


def fetch_archive(archive: Archive, into: Path) -> Path:
    """The unpacked folder. An archive that already lies in `into` is not fetched again."""
    into.mkdir(parents=True, exist_ok=True)
    path = into / archive.name
    if not path.exists():
        download(archive.url, path, archive.md5)
    elif (found := md5_of(path)) != archive.md5:
        raise DataError(
            f"{path} is not the official file, or cut (MD5 {found}, not {archive.md5}); "
            "delete it, and it is fetched again"
        )
    return unpack(path, archive.folder)


def download(url: str, path: Path, md5: str) -> None:
    """`path` is there afterwards with the right content, or as it was before."""
    _check_scheme(url)
    remedy = f"fetch {url} yourself and put it at {path}"
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            _copy(url, file)
        if (found := md5_of(part)) != md5:
            raise DataError(
                f"{url} came with MD5 {found}, but {md5} is known: cut, or not the official file. "
                f"Try again, or {remedy}"
            )
        part.replace(path)
    except (urllib.error.URLError, HTTPException, OSError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise DataError(f"{url} cannot be fetched ({reason}); {remedy}") from error
    finally:
        part.unlink(missing_ok=True)


def _copy(url: str, file: IO[bytes]) -> None:
    console = Console(stderr=True)
    opener = urllib.request.build_opener(_SafeRedirects)
    with (
        opener.open(url, timeout=TIMEOUT) as answer,
        Progress(console=console, disable=not console.is_terminal) as bar,
    ):
        total = answer.headers.get("Content-Length")
        task = bar.add_task(f"Fetching {url.rpartition('/')[2]}", total=total and int(total))
        while chunk := answer.read(CHUNK):
            file.write(chunk)
            bar.advance(task, len(chunk))


def md5_of(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def unpack(path: Path, folder: str) -> Path:
    """Unpack `folder` of the archive next to it: only plain files that stay below the folder."""
    target = path.parent / folder
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(prefix=f".{folder}.", dir=path.parent) as name:
        try:
            with tarfile.open(path, "r:gz") as archive:
                left = LARGEST
                for member in archive:
                    left -= BLOCK + member.size
                    if left < 0:
                        raise DataError(f"{path} would unpack to more than {LARGEST:,} bytes")
                    _unpack_member(archive, member, Path(name), path)
        except DataError:
            raise
        except Exception as error:  # damaged archives raise zlib's and other errors too
            raise DataError(
                f"{path} cannot be unpacked ({reason(error, path)}); delete it and retry"
            ) from error
        inner = Path(name) / folder
        if not inner.is_dir():
            raise DataError(f"{path} holds no folder {folder}: it is not the official archive")
        inner.replace(target)
    return target


def _unpack_member(
    archive: tarfile.TarFile, member: tarfile.TarInfo, into: Path, path: Path
) -> None:
    if member.isdir():
        return
    parts = PurePosixPath(member.name).parts
    if (
        not member.isreg()
        or member.name.startswith("/")
        or {"..", "\\", ":"} & {*parts, *member.name}
    ):
        raise DataError(f"{path} holds {member.name!r}, which is not a plain file below its folder")
    content = archive.extractfile(member)
    assert content is not None
    target = into.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    with content, open(target, "wb") as file:
        shutil.copyfileobj(content, file)


def _check_scheme(url: str) -> None:
    if url.partition("://")[0] not in SCHEMES:
        raise DataError(f"{url} is not fetched: only https is")


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect must not leave https."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _check_scheme(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


LONGEST_LIST = 512 << 20
"""Bytes: the longest official list, of 2.4 million files, has some 100 MB."""
LONGEST_LINE = 1000
LABEL_DIGITS = 9


def read_lines(path: Path, source: str) -> list[str]:
    if not path.is_file():
        raise DataError(f"{source} needs {path}, which is not there")
    with naming(path, "a list of files", kind=DataError):
        lines = read_text(path, LONGEST_LIST).splitlines()
    kept = [line.strip() for line in lines if line.strip()]
    if any(len(line) > LONGEST_LINE for line in kept):
        raise DataError(f"{path} has a line of more than {LONGEST_LINE:,} characters")
    if not kept:
        raise DataError(f"{path} is empty")
    return kept


def read_labelled_lines(path: Path, source: str, classes: int) -> list[tuple[str, int]]:
    """Lines of a path and a label, a space between."""
    pairs = []
    for number, line in enumerate(read_lines(path, source), start=1):
        name, _, label = line.rpartition(" ")
        if not name or not label.isascii() or not label.isdigit():
            raise DataError(f"{path}, line {number}: {line[:80]!r} is not a path and a label")
        if len(label) > LABEL_DIGITS or int(label) >= classes:
            raise DataError(
                f"{path}, line {number}: the label {label[:20]}; there are {classes} classes"
            )
        pairs.append((name.strip(), int(label)))
    return pairs


def check_files(paths: Sequence[Path], listing: Path, allowed: Containment) -> None:
    """Every file of a list is there, and where it may be. Folders are read once: for millions."""
    held: dict[str, set[str]] = {}
    for path in paths:
        folder, name = os.path.split(path)
        if folder not in held:
            held[folder] = set(os.listdir(folder)) if os.path.isdir(folder) else set()
        if name not in held[folder]:
            raise DataError(f"{listing} names {path}, which is not there")
        if not allowed.allows(path):
            raise DataError(f"{listing} names {path}, but {OUTSIDE}; {ALLOW_OUTSIDE}")


def warn_count(found: int, official: int, what: str) -> None:
    if found != official:
        warnings.warn(
            f"{what}: {found:,} images, where the official number is {official:,}; results do not "
            "compare with published ones",
            DataWarning,
            stacklevel=3,
        )
