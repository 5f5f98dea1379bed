"""Damage inside of what is packed or checked: gzip, tar, Parquet and JPEG, whole on the outside."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import tarfile
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.mutate import NUMBERS, TEXTS, Mutator, damage, tree

KEPT = lru_cache(maxsize=64)


@KEPT
def _unzipped(data: bytes) -> bytes:
    return gzip.decompress(data)


@cache
def gzip_bomb() -> bytes:
    """400 MB of commas."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1, mtime=0) as file:
        for _ in range(400):
            file.write(b",\n" * (1 << 19))
    return out.getvalue()


def as_gzip(inner: Mutator, bombs: bool = True) -> Mutator:
    """The content is damaged and packed again, with the right checksum."""

    def mutate(rng: random.Random, data: bytes) -> bytes:
        roll = rng.random()
        if roll < 0.15:
            return damage(rng, data)
        if bombs and roll < 0.152:
            return gzip_bomb()
        packed = gzip.compress(inner(rng, _unzipped(data)), 1, mtime=0)
        return packed * rng.choice((1, 1, 1, 1, 2))  # several streams are one file

    return mutate


@KEPT
def _entries(data: bytes) -> list[tuple[bytes, bytes]]:
    """Header and content of each member of a tar."""
    found = []
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for info in archive:
            file = archive.extractfile(info)
            found.append((info.tobuf(tarfile.GNU_FORMAT), file.read() if file else b""))
    return found


KINDS = b"01234567LKxgSVXA"
PATHS = (b"../../x", b"/etc/x", b"in/../../x", b"in/a.bin", b"in", b".", b"", b"in/" + b"d/" * 45)


def as_tar(rng: random.Random, data: bytes) -> bytes:
    """Names, kinds, sizes, links and contents of members, under right checksums."""
    members = [[bytearray(header), content] for header, content in _entries(data)]
    for _ in range(rng.choice((1, 1, 2, 3))):
        header, content = rng.choice(members)
        assert isinstance(header, bytearray)
        how = rng.randrange(7)
        if how == 0:
            header[0:100] = rng.choice(PATHS)[:100].ljust(100, b"\0")
        elif how == 1:
            header[156] = rng.choice(KINDS)
        elif how == 2:
            size = rng.choice((*NUMBERS, 8**11 - 1)) & (8**11 - 1)
            header[124:136] = b"%011o\0" % size
        elif how == 3:
            header[157:257] = rng.choice(PATHS)[:100].ljust(100, b"\0")
            header[156] = rng.choice(b"12")
        elif how == 4:
            at = rng.randrange(512)
            header[at] = rng.randrange(256)
        elif how == 5:
            members.append([bytearray(header), content])
        else:
            place = rng.randrange(len(members))
            members[place][1] = damage(rng, bytes(members[place][1]))
    out = b""
    for header, content in members:
        header = bytearray(header)
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % (sum(header) % 8**6)
        out += bytes(header) + bytes(content) + bytes(-len(content) % 512)
    return out + bytes(rng.choice((0, 512, 1024)))


@KEPT
def _table(data: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(data))


Column = Callable[[int], Any]
COLUMNS: tuple[Column, ...] = (
    lambda n: pa.array([None] * n),
    lambda n: pa.array([b"\xff\x00"] * n),
    lambda n: pa.array([{"a": 1}] * n),
    lambda n: pa.array([[1, 2]] * n),
    lambda n: pa.array([[[None]]] * n),
    lambda n: pa.array([10**30] * n, pa.decimal128(38)),
    lambda n: pa.array([2**62] * n, pa.timestamp("ns")),
    lambda n: pa.array([2**62] * n, pa.timestamp("s")),
    lambda n: pa.array([-(2**31)] * n, pa.date32()),
    lambda n: pa.array([2**62] * n, pa.duration("s")),
    lambda n: pa.array([0] * n, pa.time64("ns")),
    lambda n: pa.array(["x" * 9000] * n).dictionary_encode(),
    lambda n: pa.array([True, None][: min(n, 2)] * n)[:n],
    lambda n: pa.array(np.full(n, np.nan)),
    lambda n: pa.array(np.full(n, np.inf), pa.float32()),
    lambda n: pa.array([2**63] * n, pa.uint64()),
    lambda n: pa.array(np.zeros(n, np.float16)),
    lambda n: pa.array([[1.0]] * n, pa.list_(pa.float64(), 1)),
    lambda n: pa.array([[("k", 1)]] * n, pa.map_(pa.string(), pa.int64())),
    lambda n: pa.array([0] * n, pa.timestamp("us", "Mars/Olympus")),
)


BROKEN = b"{"
"""Metadata that are no JSON."""


def as_parquet(rng: random.Random, data: bytes) -> bytes:
    """Other columns, names, types and pandas metadata, in a file that is whole."""
    if rng.random() < 0.2:
        return damage(rng, data)
    if rng.random() < 0.25:
        return _footer(rng, data)
    table = _table(data)
    metadata = dict(table.schema.metadata or {})
    for _ in range(rng.choice((1, 1, 2))):
        how = rng.randrange(6)
        at = rng.randrange(max(table.num_columns, 1))
        if how <= 1 and table.num_columns:
            name = table.schema.field(at).name
            table = table.set_column(at, name, rng.choice(COLUMNS)(table.num_rows))
        elif how == 2 and table.num_columns:
            names = table.schema.names
            names[at] = rng.choice((*TEXTS, names[0])).encode("utf-8", "replace").decode()
            table = table.rename_columns(names)
        elif how == 3 and table.num_columns:
            table = table.remove_column(at)
        elif how == 4:
            table = table.slice(0, rng.choice((0, 1, table.num_rows)))
        elif metadata.get(b"pandas", BROKEN) != BROKEN:
            facts = json.dumps(tree(rng, json.loads(metadata[b"pandas"])))
            metadata[b"pandas"] = facts.encode() if rng.random() < 0.9 else BROKEN
    out = io.BytesIO()
    try:
        pq.write_table(
            table.replace_schema_metadata(metadata),
            out,
            compression=rng.choice(("none", "snappy", "gzip", "zstd")),
            use_dictionary=rng.random() < 0.5,
            row_group_size=rng.choice((1, 5, 1000)),
        )
    except (pa.ArrowException, ValueError, NotImplementedError):
        return damage(rng, data)
    return out.getvalue()


def _footer(rng: random.Random, data: bytes) -> bytes:
    """The description of the file is damaged, and its length is right."""
    length = int.from_bytes(data[-8:-4], "little")
    footer = damage(rng, data[-8 - length : -8])
    return data[: -8 - length] + footer + struct.pack("<I", len(footer)) + data[-4:]


@KEPT
def _segments(data: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """Marker and content of each segment of a JPEG, and the scan that follows them."""
    found, at = [], 2
    while at + 4 <= len(data):
        marker, size = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        found.append((marker, data[at + 4 : at + 2 + size]))
        at += 2 + size
        if marker == 0xDA:
            break
    return found, data[at:]


EXIF = (
    b"Exif\0\0II*\0\x08\0\0\0\x02\0"
    b"\x12\x01\x03\0\x01\0\0\0\x06\0\0\0"
    b"\x69\x87\x04\0\x01\0\0\0\x08\0\0\0\x00\0\0\0"
)
"""Turned by a quarter, and a directory that points at itself."""
MARKERS = (0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xC4, 0xDB, 0xDD, 0xE0, 0xE1, 0xE2, 0xED, 0xEE, 0xFE)


def as_jpeg(rng: random.Random, data: bytes) -> bytes:
    """Segments with other contents and right lengths; sizes, tables, EXIF."""
    segments, scan = _segments(data)
    segments = list(segments)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(segments))
        marker, content = segments[at]
        how = rng.randrange(7)
        if how == 0:
            frames = [k for k, (kind, _) in enumerate(segments) if kind in (0xC0, 0xC1, 0xC2)]
            if frames:
                kind, frame = segments[frames[0]]
                sides = (rng.choice((0, 1, 8, 500, 9000, 65535)) for _ in range(2))
                segments[frames[0]] = (kind, frame[:1] + struct.pack(">HH", *sides) + frame[5:])
        elif how == 1:
            segments[at] = (marker, damage(rng, content))
        elif how == 2:
            segments[at] = (rng.choice(MARKERS), content)
        elif how == 3:
            segments.insert(at, (rng.choice(MARKERS), damage(rng, EXIF)))
        elif how == 4:
            segments.insert(0, (0xE1, EXIF if rng.random() < 0.3 else damage(rng, EXIF)))
        elif how == 5:
            segments.insert(at, segments[rng.randrange(len(segments))])
        else:
            scan = damage(rng, scan)
    out = data[:2]
    for marker, content in segments:
        content = content[:65533]
        out += bytes((0xFF, marker)) + struct.pack(">H", len(content) + 2) + content
    return out + scan
