"""Embeddings cached by content: unchanged samples are not embedded again.

`embeddings.npy` holds one row per different content, `embeddings.json` the hash of each row, the
embedder, and size and time of the files, so that unchanged files are recognised unread.
During embedding, finished chunks are in `embeddings.parts`; the next call continues from them.

In a folder that several runs share, each write makes a matrix with a name of its own, which the
index holds: rows of one are never looked up in the other, even if another run writes in between.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from csot._core.errors import DataError, FileError
from csot._core.files import atomic_write, open_zip, read_json, read_member, read_npy, write_text
from csot.embed.embedder import Embedder, Samples

MATRIX, INDEX, PARTS = "embeddings.npy", "embeddings.json", "embeddings.parts"
Rows = npt.NDArray[np.float32]
LARGEST_INDEX = 2 << 30
"""Bytes: some 250 for each of eight million files."""
ATTEMPTS = 5
"""To open the matrix that the index names, while other runs replace both."""
ABANDONED = 24 * 3600.0
"""Seconds after which a matrix that no index names is deleted."""


@dataclass(frozen=True)
class _Stored:
    """An index and the matrix that belongs to it."""

    row: dict[str, int] = field(default_factory=dict)
    """Hash -> row of the matrix."""
    files: dict[str, list[Any]] = field(default_factory=dict)
    """Path below the root -> size, time, hash."""
    matrix: Rows = field(default_factory=lambda: np.empty((0, 0), np.float32))
    name: str = MATRIX

    def rows(self, keys: Sequence[str]) -> Rows:
        """(len(keys), D), read into memory."""
        return np.array(self.matrix[[self.row[key] for key in keys]])


class EmbeddingCache:
    """The embeddings that `folder` keeps of one embedder. Nothing is written before `embed`.

    With `keep` those of other samples stay, for a folder that several data sets share.
    """

    def __init__(self, folder: Path, embedder: Embedder, root: Path, keep: bool = False) -> None:
        self._folder = folder
        self._embedder = embedder
        self._root = root
        self._keep = keep
        self._stored = self._read()

    @property
    def _identity(self) -> list[str]:
        return [self._embedder.name, self._embedder.version]

    def knows(self, path: Path) -> bool:
        """Whether this file was embedded before and has not been touched since."""
        try:
            return self._hash_if_untouched(path) in self._stored.row
        except OSError:
            return False

    def embed(self, samples: Samples, advance: Callable[[int], None] | None = None) -> Rows:
        """(N, D). `advance` is called with numbers of finished samples, known ones included."""
        self._stored = self._read()
        hashes = [self._hash(sample) for sample in samples]
        first = dict(zip(reversed(hashes), reversed(samples), strict=True))
        wanted = dict.fromkeys(hashes)
        found = self._known(wanted)
        tell = advance or (lambda count: None)
        tell(sum(key in found for key in hashes))
        missing = [key for key in wanted if key not in found]
        if missing:
            self._folder.mkdir(parents=True, exist_ok=True)
        counts = Counter(hashes)
        for start in range(0, len(missing), self._embedder.chunk):
            keys = missing[start : start + self._embedder.chunk]
            rows = self._embedder([first[key] for key in keys])  # type: ignore[arg-type]
            self._write_part(keys, rows)
            found.update(zip(keys, rows, strict=True))
            tell(sum(counts[key] for key in keys))
        dims = {row.shape for row in found.values()}
        if len(dims) > 1:
            raise DataError(
                f"the embedder {self._embedder.name} returned rows of different lengths "
                f"({sorted(dim[0] for dim in dims)}); delete {self._folder / INDEX} if it changed"
            )
        matrix = np.stack([found[key] for key in wanted])
        self._store(list(wanted), matrix, self._states(samples, hashes))
        position = {key: row for row, key in enumerate(wanted)}
        return matrix[[position[key] for key in hashes]]

    def _known(self, wanted: dict[str, None]) -> dict[str, Rows]:
        """Rows of the cache and of an interrupted call."""
        found: dict[str, Rows] = {}
        for part in sorted((self._folder / PARTS).glob("*.npz")):
            found.update(self._read_part(part))
        known = [key for key in wanted if key in self._stored.row]
        if known:
            found.update(zip(known, self._stored.rows(known), strict=True))
        return {key: row for key, row in found.items() if key in wanted}

    def _hash(self, sample: Path | str) -> str:
        if isinstance(sample, str):
            return hashlib.sha256(sample.encode("utf-8", "surrogatepass")).hexdigest()
        known = self._hash_if_untouched(sample)
        if known is not None:
            return known
        with open(sample, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def _hash_if_untouched(self, path: Path) -> str | None:
        entry = self._stored.files.get(self._key(path))
        if entry is None:
            return None
        state = path.stat()
        known: str = entry[2]
        return known if entry[:2] == [state.st_size, state.st_mtime_ns] else None

    def _key(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix() if self._within(path) else str(path)

    def _within(self, path: Path) -> bool:
        return path.is_relative_to(self._root)

    def _read_part(self, part: Path) -> dict[str, Rows]:
        try:
            with open_zip(part, "a part of embeddings") as archive:
                if read_member(archive, "embedder", part).tolist() != self._identity:
                    return {}
                hashes = read_member(archive, "hashes", part).tolist()
                rows = read_member(archive, "rows", part)
        except (FileError, KeyError):
            return {}  # cut off while it was written
        return dict(zip(hashes, rows, strict=True)) if _fits(hashes, rows) else {}

    def _write_part(self, keys: list[str], rows: Rows) -> None:
        folder = self._folder / PARTS
        folder.mkdir(exist_ok=True)
        identity = np.array(self._identity)
        with atomic_write(folder / f"{uuid.uuid4().hex}.npz") as file:
            np.savez(file, embedder=identity, hashes=np.array(keys), rows=rows)

    def _states(self, samples: Samples, hashes: Sequence[str]) -> dict[str, list[Any]]:
        """Size, time and hash of each file; nothing for texts."""
        files: dict[str, list[Any]] = {}
        for sample, key in zip(samples, hashes, strict=True):
            if isinstance(sample, Path):
                state = sample.stat()
                files[self._key(sample)] = [state.st_size, state.st_mtime_ns, key]
        return files

    def _store(self, keys: list[str], matrix: Rows, files: dict[str, list[Any]]) -> None:
        """Write the rows of `keys` unless just these are stored; delete the parts of them."""
        others: list[str] = []
        is_stored = list(self._stored.row) == keys
        if self._keep:
            self._stored = self._read()  # with what other runs wrote meanwhile
            new = set(keys)
            others = [key for key in self._stored.row if key not in new]
            is_stored = new <= self._stored.row.keys()
            files = {**self._stored.files, **files}
        if not is_stored or files != self._stored.files:
            if others:
                matrix = np.concatenate([matrix, self._stored.rows(others)])
            self._write([*keys, *others], matrix, files)
        if not self._keep:
            shutil.rmtree(self._folder / PARTS, ignore_errors=True)
            return
        for part in (self._folder / PARTS).glob("*.npz"):
            if self._stored.row.keys() >= self._read_part(part).keys():
                part.unlink(missing_ok=True)

    def _write(self, keys: list[str], matrix: Rows, files: dict[str, list[Any]]) -> None:
        name = f"embeddings-{uuid.uuid4().hex}.npy" if self._keep else MATRIX
        index = {"embedder": self._identity, "matrix": name, "rows": keys, "files": files}
        if not self._keep:
            # Without an index the matrix means nothing: no moment at which the two disagree.
            (self._folder / INDEX).unlink(missing_ok=True)
        with atomic_write(self._folder / name) as file:
            np.save(file, matrix)
        write_text(self._folder / INDEX, json.dumps(index))
        if self._keep:
            self._delete_old(self._stored.name, name)
        row = {key: number for number, key in enumerate(keys)}
        self._stored = _Stored(row, files, name=name)  # `embed` opens the matrix again

    def _delete_old(self, replaced: str, current: str) -> None:
        """Delete the replaced matrix, and those that killed or simultaneous writers left."""
        for path in self._folder.glob("embeddings*.npy"):
            with suppress(OSError):  # deleted by another run, or, on Windows, still open in one
                is_old = time.time() - path.stat().st_mtime > ABANDONED
                if path.name != current and (path.name == replaced or is_old):
                    path.unlink()

    def _read(self) -> _Stored:
        """What is on the disk; nothing where that is of another embedder."""
        index, matrix = _read_index(self._folder)
        if index.get("embedder") != self._identity:
            return _Stored()
        row = {key: number for number, key in enumerate(index["rows"])}
        return _Stored(row, index["files"], matrix, index.get("matrix", MATRIX))


def _open(path: Path) -> Rows:
    matrix: Rows = read_npy(path, mapped=True)
    return matrix


def _fits(hashes: Any, rows: npt.NDArray[Any]) -> bool:
    """Whether there is a row of finite numbers for each hash."""
    return (
        isinstance(hashes, list)
        and all(isinstance(key, str) for key in hashes)
        and rows.ndim == 2
        and rows.dtype.kind == "f"
        # The index is written last: a longer matrix is a call that was cut off in between.
        and len(hashes) <= len(rows)
    )


def _is_state(entry: Any) -> bool:
    """Size, time and hash of a file."""
    return isinstance(entry, list) and [type(part) for part in entry] == [int, int, str]


def _read_index(folder: Path) -> tuple[dict[str, Any], Rows]:
    """An index and its matrix. Empty unless both are whole and fit each other."""
    nothing: tuple[dict[str, Any], Rows] = {}, _Stored().matrix
    for _ in range(ATTEMPTS):
        try:
            index = read_json(folder / INDEX, LARGEST_INDEX)
        except FileError:
            return nothing
        name = index.get("matrix", MATRIX) if isinstance(index, dict) else None
        if not isinstance(name, str) or not re.fullmatch(r"embeddings(-[0-9a-f]{32})?\.npy", name):
            return nothing
        try:
            matrix = _open(folder / name)
        except FileError:
            if (folder / name).exists():
                return nothing
            continue  # replaced since the index was read
        files = index.get("files")
        is_whole = isinstance(files, dict) and all(map(_is_state, files.values()))
        return (index, matrix) if is_whole and _fits(index.get("rows"), matrix) else nothing
    return nothing
