"""Damage that follows the structure of a file: a mutated file should get past the first check.

Every mutator takes a generator and the bytes of a valid file, and returns other bytes.
"""

from __future__ import annotations

import csv
import io
import json
import pickletools
import random
import re
import sqlite3
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml

Mutator = Callable[[random.Random, bytes], bytes]
NUMBERS = (0, 1, -1, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**32 - 1, 2**40, 2**63 - 1)
TEXTS = (
    *("", " ", "0", "-1", "007", "nan", "inf", "-inf", "1e999", "9" * 30, "9" * 5000, "NA", "None"),
    *(
        "=cmd|' /C calc'!A0",
        "+1+1",
        "@SUM(A1)",
        "'=x",
        "\x1b[2J\x1b]0;owned\x07",
        "\x00",
        "\r",
        "\t",
    ),
    *(
        "../secret.png",
        "/etc/passwd",
        "/dev/zero",
        "a/../../b",
        "~",
        "é",
        "\u202e",
        "\ud800",
        "x" * 9000,
    ),
    *(
        '"',
        "'",
        ",",
        ";",
        "|",
        "\n",
        "{{ 7 * 7 }}",
        "<script>",
        "[red]",
        "%s",
        "{0}",
        "id",
        "label",
    ),
    *("true", "[]", "{}", "2020-01-01", "1_000", "0x10", "1:2:3", "!!python/object:os.system"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 1e308, float("nan"), float("inf"), 10**40, 2**63, 10**12),
    *(10**5, 10**7, 3 * 10**8, 10**9, -(10**9)),
    *([], {}, [[]], [{}], {"": None}, [None], [1, "a"], "text", ["a"] * 50),
)


def damage(rng: random.Random, data: bytes) -> bytes:
    """Flips, cuts, repeats, and numbers that matter at some place; blind to structure."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(out) + 1)
        size = rng.choice((1, 1, 2, 4, 8, 64, 512))
        how = rng.randrange(6)
        if how == 0 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif how == 1 and out:
            out[at % len(out)] = rng.randrange(256)
        elif how == 2:
            del out[at : at + size]
        elif how == 3:
            out[at:at] = out[at : at + size] * rng.choice((1, 1, 20))
        elif how == 4:
            form = rng.choice("bhiqBHIQ")
            number = rng.choice(NUMBERS) & (2 ** (8 * struct.calcsize(form)) - 1)
            packed = number.to_bytes(struct.calcsize(form), rng.choice(("little", "big")))
            out[at : at + len(packed)] = packed
        elif rng.random() < 0.3:
            del out[at:]
    return bytes(out)


def either(*mutators: Mutator) -> Mutator:
    return lambda rng, data: rng.choice(mutators)(rng, data)


def as_text(rng: random.Random, data: bytes) -> bytes:
    """Words, brackets and quotes in a file of text."""
    text = data.decode("utf-8", "surrogateescape")
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(text) + 1)
        extra = rng.choice(
            (rng.choice(TEXTS), rng.choice("[]{}(),:;&*-\n\"'#") * rng.choice((1, 9, 400)))
        )
        text = text[:at] + extra + text[at + rng.choice((0, 0, 1, 5)) :]
    return text.encode("utf-8", "surrogatepass")


def _value(rng: random.Random) -> Any:
    roll = rng.random()
    if roll < 0.5:
        return rng.choice(VALUES)
    if roll < 0.9:
        return rng.choice(TEXTS)
    deep: Any = 0
    for _ in range(rng.choice((5, 60, 300))):
        deep = [deep] if rng.random() < 0.9 else {"a": deep}
    return deep


def tree(rng: random.Random, value: Any) -> Any:
    """One place of a tree of lists and dicts is something else."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        value, key = dict(value), rng.choice(list(value))
        if rng.random() < 0.15:
            del value[key]
        elif rng.random() < 0.1:
            value[rng.choice(TEXTS)] = value[key]
        else:
            value[key] = tree(rng, value[key])
        return value
    if isinstance(value, list) and value and rng.random() < 0.7:
        value, at = list(value), rng.randrange(len(value))
        if rng.random() < 0.2:
            return value[:at] + value[at:] * rng.choice((0, 2, 3))
        value[at] = tree(rng, value[at])
        return value
    return _value(rng)


KEPT = lru_cache(maxsize=64)
"""Valid files are taken apart once, not for every damaged copy."""


@KEPT
def _json(data: bytes) -> Any:
    return json.loads(data)


@KEPT
def _yaml(data: bytes) -> Any:
    return yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def as_json(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.02:
        return rng.choice((b"[", b'{"a":')) * rng.choice((100, 100_000))
    text = json.dumps(tree(rng, _json(data)))
    return text.encode() if rng.random() < 0.9 else damage(rng, text.encode())


DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def as_yaml(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.05:
        levels = rng.choice((3, 9, 30))
        lines = ["a0: &a0 [x, x]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
        return "\n".join(lines).encode() + b"\n" + data
    if rng.random() < 0.05:
        return rng.choice((b"[", b"{a: ", b"- ", b"? ", b"&a [*a, ")) * rng.choice((20, 5000))
    try:
        text = yaml.dump(tree(rng, _yaml(data)), Dumper=DUMPER, sort_keys=False)
    except (yaml.YAMLError, RecursionError, UnicodeEncodeError):
        return as_text(rng, data)
    return text.encode("utf-8", "surrogatepass")


def as_json_lines(rng: random.Random, data: bytes) -> bytes:
    """One line as `as_json` changes it."""
    lines = data.splitlines()
    row = rng.randrange(len(lines))
    lines[row] = as_json(rng, lines[row]).replace(b"\n", b" ")
    return b"\n".join(lines)


@KEPT
def _rows(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode("utf-8", "surrogateescape"))))


def as_csv(rng: random.Random, data: bytes) -> bytes:
    """Cells, columns and rows."""
    separator = rng.choice(",,,,,;\t|")
    rows = [list(row) for row in _rows(data)]
    for _ in range(rng.choice((1, 1, 2, 6))):
        row = rng.choice((rows[0], rng.choice(rows)))
        how = rng.randrange(7)
        if how < 4 and row:
            row[rng.randrange(len(row))] = rng.choice(TEXTS)
        elif how == 4:
            row.insert(rng.randrange(len(row) + 1), rng.choice(TEXTS))
        elif how == 5 and row:
            del row[rng.randrange(len(row))]
        else:
            rows.insert(rng.randrange(len(rows) + 1), list(rng.choice(rows)))
    out = io.StringIO()
    csv.writer(out, delimiter=separator, lineterminator=rng.choice(("\n", "\r\n"))).writerows(rows)
    return out.getvalue().encode("utf-8", "surrogatepass")


DTYPES = (
    *(
        "'<f4'",
        "'>f8'",
        "'|O'",
        "'|S0'",
        "'<U0'",
        "'|V0'",
        "'<U99999999'",
        "'|V2147483647'",
        "'<M8[s]'",
    ),
    *(
        "[('a', '<f4')]",
        "[('a', '|O')]",
        "[('a', '<f4', (10**9,))]",
        "'<c16'",
        "'|b1'",
        "'e'",
        "'<f99'",
    ),
    *("None", "[]", "('<f4', (2,))", "[" * 300, "'<f2,' * 9", "'<i8'", "'<U5'", "{'names': ['a']}"),
)
SHAPES = (
    *(
        "()",
        "(0,)",
        "(-1,)",
        "(3,)",
        "(10**30,)",
        "(2**31, 2**31)",
        "(0, 2**62)",
        "(999999999999,)",
    ),
    *(
        "(1.5,)",
        "('a',)",
        "None",
        "(True, 2)",
        "(" * 300,
        "(1,) * 40",
        "(9999999, 0)",
        "(2**40, 1)",
    ),
)


def as_npy(rng: random.Random, data: bytes) -> bytes:
    """The header says something else than the content."""
    start = data.find(b"{")
    end = data.find(b"\n", start)
    if start < 0 or end < 0 or rng.random() < 0.2:
        return damage(rng, data)
    header = data[start:end].decode("latin1")
    if rng.random() < 0.6:
        header = re.sub(
            r"'descr': [^{]*?, 'fortran", f"'descr': {rng.choice(DTYPES)}, 'fortran", header
        )
    if rng.random() < 0.6:
        shape = rng.choice(SHAPES)
        header = re.sub(r"'shape': \([^)]*\)", lambda _: f"'shape': {shape}", header)
    if rng.random() < 0.2:
        header = as_text(rng, header.encode()).decode("latin1")
    if rng.random() < 0.2:
        header = header.replace("False", rng.choice(("True", "3", "None")))
    content = header.encode("latin1", "replace") + b"\n"
    version = rng.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    length = struct.pack("<H" if version[0] == 1 else "<I", len(content) % 65536)
    return b"\x93NUMPY" + version + length + content + data[end + 1 :]


PIECES = (
    *(
        b"\x80\x02",
        b"]",
        b"}",
        b")",
        b"(",
        b"0",
        b"1",
        b"2",
        b"N",
        b"\x88",
        b"\x85",
        b"\x86",
        b"\x87",
    ),
    *(
        b"q\x00",
        b"h\x00",
        b"r\x00\x00\x00\x0c",
        b"r\xff\xff\xff\x7f",
        b"j\xff\xff\xff\x00",
        b"\x94",
    ),
    *(b"a", b"e", b"s", b"u", b"t", b"l", b"d", b"b", b"R", b"Q", b"o", b"\x81", b"\x92", b"."),
    *(b"cos\nsystem\n", b"cnumpy\ndtype\n", b"cnumpy\nndarray\n", b"c__builtin__\neval\n"),
    *(b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy.core.multiarray\nscalar\n"),
    *(
        b"c_codecs\nencode\n",
        b"K\x05",
        b"J\xff\xff\xff\xff",
        b"U\x03abc",
        b"X\x02\x00\x00\x00\xc3\xa9",
    ),
    *(
        b"T\xff\xff\xff\x7f",
        b"B\xff\xff\xff\xff",
        b"\x8e" + b"\xff" * 8,
        b"\x8b\xff\xff\xff\x7f",
        b"I9\n",
    ),
    *(
        b"L" + b"9" * 5000 + b"L\n",
        b"\x85" * 3000,
        b"(" * 3000,
        b"]q\x01(h\x01h\x01h\x01h\x01e" * 12,
    ),
    *(
        b"\x95" + b"\xff" * 8,
        b"Pabc\n",
        b"\x82\x01",
        b"i__main__\nx\n",
        b"F1e999\n",
        b"G" + b"\xff" * 8,
    ),
)


@KEPT
def _instructions(data: bytes) -> list[bytes]:
    """Empty if it is not a pickle."""
    try:
        starts = [at for _, _, at in pickletools.genops(data) if at is not None]
    except Exception:
        return []
    return [data[a:b] for a, b in zip(starts, [*starts[1:], len(data)], strict=True)]


def as_pickle(rng: random.Random, data: bytes) -> bytes:
    """Instructions moved, repeated, left out and put in."""
    ops = list(_instructions(data))
    if not ops:
        return damage(rng, data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(ops) or 1)
        how = rng.randrange(5)
        if how == 0 and ops:
            del ops[at]
        elif how == 1 and ops:
            ops.insert(rng.randrange(len(ops)), ops[at])
        elif how == 2 and ops:
            ops[at] = damage(rng, ops[at])
        else:
            ops.insert(at, rng.choice(PIECES) * rng.choice((1, 1, 1, 3)))
    return b"".join(ops)


@cache
def bomb() -> bytes:
    """400 MB of zeros, compressed."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    block = bytes(1 << 20)
    return b"".join(packer.compress(block) for _ in range(400)) + packer.flush()


@KEPT
def _members(data: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


def zip_of(members: list[tuple[str, bytes]], deflated: bool) -> bytes:
    """An archive with right checksums; a name may be there twice, or be any text."""
    parts, entries, at = [], [], 0
    for given, content in members:
        name = given.encode("utf-8", "replace")
        packed = _deflated(content) if deflated else content
        sizes = (zlib.crc32(content), len(packed), len(content), len(name), 0)
        fields = struct.pack("<HHHHHIIIHH", 20, 0x800, 8 if deflated else 0, 0, 33, *sizes)
        parts.append(b"PK\x03\x04" + fields + name + packed)
        entries.append(
            b"PK\x01\x02\x14\x00" + fields + struct.pack("<HHHII", 0, 0, 0, 0, at) + name
        )
        at += len(parts[-1])
    directory = b"".join(entries)
    counts = (0, 0, len(members), len(members), len(directory), at, 0)
    return b"".join(parts) + directory + struct.pack("<4sHHHHIIH", b"PK\x05\x06", *counts)


def _deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


def as_zip(inner: Mutator) -> Mutator:
    """Members with other contents, other names, other sizes, other ways of packing."""

    def mutate(rng: random.Random, data: bytes) -> bytes:
        if rng.random() < 0.15:
            return damage(rng, data)
        members = list(_members(data))
        at = rng.randrange(len(members))
        how = rng.random()
        if how < 0.7:
            members[at] = (members[at][0], inner(rng, members[at][1]))
        elif how < 0.8:
            members.pop(at)
        elif how < 0.9:
            members.append((rng.choice((*TEXTS[13:], members[at][0])), members[at][1]))
        packed = zip_of(members, deflated=rng.random() < 1 / 3)
        if rng.random() < 0.2:  # fields of the headers
            packed = _headers(rng, packed)
        return packed

    return mutate


def as_cleaner(rng: random.Random, data: bytes) -> bytes:
    """The tree of a saved cleaner is another one, in a whole archive."""
    members = dict(_members(data))
    array = members["header.npy"]
    start = array.index(b"\n") + 1
    text = json.dumps(tree(rng, _json(array[start:]))).encode()
    size = re.sub(rb"'shape': \(\d+,\)", b"'shape': (%d,)" % len(text), array[10:start])
    members["header.npy"] = array[:8] + struct.pack("<H", len(size)) + size + text
    return zip_of(list(members.items()), deflated=False)


def _headers(rng: random.Random, packed: bytes) -> bytes:
    out = bytearray(packed)
    places = [m.start() for m in re.finditer(b"PK\x01\x02|PK\x03\x04", packed)]
    central = rng.choice(places)
    is_central = packed[central : central + 4] == b"PK\x01\x02"
    offset = rng.choice((8, 10, 16, 20, 24, 28, 42) if is_central else (6, 8, 14, 18, 22, 26))
    value = rng.choice((0, 1, 8, 9, 12, 14, 99, 0xFFFF, 0xFFFFFFFF, 2**31, 2**27))
    width = 2 if offset in (6, 8, 10, 26, 28) else 4
    out[central + offset : central + offset + width] = (value % 2 ** (8 * width)).to_bytes(
        width, "little"
    )
    return bytes(out)


def zip_bomb(rng: random.Random, data: bytes) -> bytes:
    """The first member, of 400 MB in a few hundred kilobytes; once in a while."""
    if rng.random() > 0.01:
        return as_zip(damage)(rng, data)
    name = _members(data)[0][0].encode()
    size, packed = 400 << 20, bomb()
    crc = 0
    fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, crc, len(packed), size, len(name), 0)
    local = b"PK\x03\x04" + fields + name + packed
    entry = b"PK\x01\x02\x14\x00" + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 1, 1, len(entry), len(local), 0)
    return local + entry + end


def _chunk(kind: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


@cache
def _zeros(count: int) -> bytes:
    return zlib.compress(bytes(count), 1)


@KEPT
def _chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], 8
    while at + 12 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        found.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + size]))
        at += 12 + size
    return found


def _unpacked(content: bytes) -> bytes:
    try:
        return zlib.decompress(content)
    except zlib.error:  # another step damaged it before
        return content


def as_png(rng: random.Random, data: bytes) -> bytes:
    """Chunks with right checksums and wrong contents."""
    chunks = [list(chunk) for chunk in _chunks(data)]
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randrange(len(chunks))
        kind, content = chunks[place]
        how = rng.randrange(6)
        if kind == b"IHDR" and how < 4:
            sides = (rng.choice((0, 1, 8, 8, 9000, 13000, 2**16, 2**31 - 1)) for _ in range(2))
            tail = bytes(rng.choice((0, 1, 2, 3, 4, 6, 8, 16)) for _ in range(5))
            chunks[place][1] = struct.pack(">II", *sides) + (tail if how < 2 else content[8:])
        elif how < 2:
            chunks[place][1] = damage(rng, content)
        elif how == 2 and kind == b"IDAT":
            if rng.random() < 0.7:  # other filters and pixels, rightly compressed
                chunks[place][1] = zlib.compress(damage(rng, _unpacked(content)), 1)
            else:
                chunks[place][1] = _zeros(rng.choice((10, 10**5, 10**7)))
        elif how == 3:
            chunks.insert(
                place,
                [
                    rng.choice((b"tEXt", b"PLTE", b"tRNS", b"acTL", b"fcTL", b"eXIf", b"gAMA")),
                    damage(rng, b"\x00" * 20),
                ],
            )
        elif how == 4:
            text = b"name\x00\x00" + _zeros(10**7)
            chunks.insert(place, [rng.choice((b"zTXt", b"iCCP", b"iTXt")), text])
        else:
            del chunks[place]
            chunks = chunks or [[b"IEND", b""]]
    return data[:8] + b"".join(_chunk(kind, content) for kind, content in chunks)


def as_sqlite(rng: random.Random, data: bytes) -> bytes:
    """Wrong types and foreign code in a whole database, or damaged pages."""
    if rng.random() < 0.5:
        out = bytearray(damage(rng, data))
        if rng.random() < 0.5 and len(out) > 5000:
            at = 4096 * rng.randrange(len(out) // 4096)
            out[at : at + 60] = damage(rng, bytes(out[at : at + 60]))[:60]
        return bytes(out)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "d.sqlite")
        path.write_bytes(data)
        base = sqlite3.connect(path)
        try:
            base.execute("PRAGMA ignore_check_constraints=ON")
            for _ in range(rng.choice((1, 2))):
                base.execute(rng.choice(HOSTILE_SQL), ())
            base.commit()
        except sqlite3.Error:
            pass
        finally:
            base.close()
        return path.read_bytes()


COLUMNS = ("batch", "reviewer", "id", "action", "label", "way", "undoes", "time")
CELLS = ("x'ff00'", "1", "NULL", "1e99", "'\\udc80\\u'", "'nonsense'", "zeroblob(100)", "'\x1b[2J'")
HOSTILE_SQL = (
    *(f"UPDATE OR IGNORE decision SET {name} = {cell}" for name in COLUMNS for cell in CELLS),
    *(f"UPDATE meta SET value = {cell}" for cell in (*CELLS, "'[]'", "'{}'", "'{\"path\": 1}'")),
    "DROP TABLE meta",
    "DROP TABLE decision",
    "CREATE TRIGGER t AFTER INSERT ON decision BEGIN DELETE FROM decision; END",
    "CREATE VIEW v AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x "
    "FROM c",
    "ALTER TABLE decision RENAME TO other",
    "ALTER TABLE decision ADD COLUMN more TEXT",
    "UPDATE decision SET seq = seq + 9223372036854775000",
)


def as_safetensors(rng: random.Random, data: bytes) -> bytes:
    """Another header before the same content."""
    if rng.random() < 0.4:
        return damage(rng, data)
    length = int.from_bytes(data[:8], "little")
    header = json.dumps(tree(rng, _json(data[8 : 8 + length]))).encode()
    said = rng.choice((len(header), len(header), len(header), 2**26, 2**62))
    return said.to_bytes(8, "little") + header + data[8 + length :]


def near_the_end(rng: random.Random, data: bytes) -> bytes:
    """Damage where Parquet keeps what it says of itself."""
    cut = max(0, len(data) - rng.choice((8, 100, 1000, 4000)))
    return data[:cut] + damage(rng, data[cut:])
