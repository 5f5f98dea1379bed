"""Decisions on disk: a log that only grows, in SQLite.

A decision is committed with synchronous=FULL before `append` returns, so neither a killed process
nor a power cut loses what a page has confirmed. Nothing is ever deleted: undoing appends an entry.
Several servers may write to one log at the same time. `csot.review` lists all files that the review
writes.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, NamedTuple

from csot._core.errors import FileError, clip, naming, reason
from csot._core.files import check_file

FILE = "decisions.sqlite"
UNDO = "undo"
Action = Literal["accept", "keep", "choose", "unsure", "discard"]
ACTIONS: tuple[Action, ...] = ("accept", "keep", "choose", "unsure", "discard")
"""The log stores names; codes are made from the order, so new actions come last."""
Way = Literal["one", "grid", "rule", "audit"]
"""How the decision was made: by itself, in a grid, unseen by "accept all above", or in an audit,
where no suggestion is shown."""
WAYS: tuple[Way, ...] = ("one", "grid", "rule", "audit")

SCHEMA = """
CREATE TABLE IF NOT EXISTS decision (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  batch TEXT NOT NULL,   -- decisions that were made, and are undone, together
  reviewer TEXT NOT NULL,
  id TEXT NOT NULL,      -- of the sample
  action TEXT NOT NULL
    CHECK (action IN ('accept', 'keep', 'choose', 'unsure', 'discard', 'undo')),
  label TEXT,            -- NULL for unsure, discard and undo
  way TEXT NOT NULL CHECK (way IN ('one', 'grid', 'rule', 'audit')),
  undoes TEXT,           -- the batch that an undo takes back
  time TEXT NOT NULL     -- UTC
);
CREATE INDEX IF NOT EXISTS decision_batch ON decision (batch);
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


class LogEntry(NamedTuple):
    """One line of the log."""

    batch: str
    reviewer: str
    id: str
    action: str
    label: str | None
    way: str
    undoes: str | None = None
    time: str = ""
    seq: int = 0


class Store:
    """The log of one run. Every method may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._lock = threading.RLock()
        if self.path.exists():
            check_file(self.path)
        with self._explained():
            self._base = sqlite3.connect(
                self.path, timeout=10, isolation_level=None, check_same_thread=False
            )
            try:
                self._open()
            except BaseException:
                self._base.close()
                raise

    def _open(self) -> None:
        """Make or check the tables. An untrusted file may hold views or triggers."""
        for setting in ("trusted_schema=OFF", "cell_size_check=ON", "journal_mode=WAL"):
            self._base.execute(f"PRAGMA {setting}").fetchone()
        self._base.execute("PRAGMA synchronous=FULL")
        found = self._base.execute("PRAGMA quick_check(1)").fetchone()
        if found is None or found[0] != "ok":
            raise sqlite3.DatabaseError(f"it is damaged: {found and found[0]}")
        self._base.executescript(SCHEMA)
        for kind, sql in self._base.execute("SELECT type, sql FROM sqlite_master").fetchall():
            is_virtual = str(sql).upper().lstrip().startswith("CREATE VIRTUAL")
            if kind not in ("table", "index") or is_virtual:
                raise sqlite3.DatabaseError(f"it holds a {kind}, which csot review never makes")
        self._migrate()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of SQLite as one line that names the file."""
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError) as error:
            raise OSError(
                f"{self.path} cannot be used ({reason(error)}): decisions are kept there, so the "
                "run must be writable and the file a database of csot review; if it is damaged, "
                "move it away"
            ) from error

    def claim(self, source: dict[str, Any], same_data: bool = False) -> None:
        """Refuse decisions on other data: ids such as row numbers would match anyway."""
        wanted = json.dumps({key: source.get(key) for key in ("kind", "path")}, sort_keys=True)
        with self._transaction() as base:
            found = base.execute("SELECT value FROM meta WHERE key = 'source'").fetchone()
            if found is not None and found[0] != wanted and not same_data:
                with naming(self.path, "a record of decisions", "move it away"):
                    theirs = json.loads(found[0])["path"]
                raise FileError(
                    f"{self.path} holds decisions on {clip(str(theirs), 300)}, and the run "
                    f"is now of {clip(str(source.get('path')), 300)}: move the file away, or say "
                    "`same_data` if the data only moved"
                )
            base.execute("INSERT OR REPLACE INTO meta VALUES ('source', ?)", (wanted,))

    def append(self, entries: Sequence[LogEntry]) -> bool:
        """All of them or none, durable on return. False if the batch was there before.

        A page that got no answer sends its batch again; it must not count twice.
        """
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        with self._transaction() as base:
            known = "SELECT 1 FROM decision WHERE batch = ? LIMIT 1"
            if not entries or base.execute(known, (entries[0].batch,)).fetchone():
                return False
            base.executemany(
                "INSERT INTO decision (batch, reviewer, id, action, label, way, undoes, time) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [_line(entry, entry.time or now) for entry in entries],
            )
        return True

    def since(self, seq: int) -> list[LogEntry]:
        """What was written after that line, by any process."""
        with self._lock, self._explained():
            rows = self._base.execute(
                "SELECT batch, reviewer, id, action, label, way, undoes, time, seq FROM decision "
                "WHERE seq > ? ORDER BY seq",
                (seq,),
            ).fetchall()
        with naming(self.path, "a record of decisions", "move it away"):
            return [_entry(*row) for row in rows]

    def _migrate(self) -> None:
        """Copy the log of an older version, which refuses audits or discards, into a new table."""
        with self._transaction() as base:
            made = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'decision'"
            sql = base.execute(made).fetchone()[0]
            if "'audit'" in sql and "'discard'" in sql:
                return
            base.execute("ALTER TABLE decision RENAME TO decision_before")
            base.execute("DROP INDEX decision_batch")
            for statement in SCHEMA.split(";")[:2]:
                base.execute(statement)
            base.execute("INSERT INTO decision SELECT * FROM decision_before")
            base.execute("DROP TABLE decision_before")

    def close(self) -> None:
        """Fold the write-ahead log into the file."""
        with self._lock:
            self._base.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._explained():
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield self._base
                self._base.execute("COMMIT")
            except BaseException:
                if self._base.in_transaction:
                    self._base.execute("ROLLBACK")
                raise


def _entry(*row: Any) -> LogEntry:
    """One line as it is read: SQLite lets any column hold any type."""
    batch, who, key, action, label, way, undoes, time, seq = row
    texts = (batch, who, key, action, way, time)
    if not all(isinstance(text, str) for text in texts) or not isinstance(seq, int):
        raise ValueError(f"line {seq} holds something other than text")
    if not all(text is None or isinstance(text, str) for text in (label, undoes)):
        raise ValueError(f"line {seq} holds a label that is not text")
    if action not in (*ACTIONS, UNDO) or way not in WAYS:
        raise ValueError(f"line {seq} holds the action {clip(action)!r}, {clip(way)!r}")
    datetime.fromisoformat(time)
    return LogEntry(
        batch,
        who,
        _restored(key),
        action,
        _restored(label),
        way,
        undoes,
        time,
        seq,
    )


def _line(entry: LogEntry, time: str) -> tuple[str | None, ...]:
    e = entry
    key, label = _escaped(e.id), _escaped(e.label)
    return e.batch, e.reviewer, key, e.action, label, e.way, e.undoes, time


def _escaped(text: str | None) -> str | None:
    """File names that are not Unicode hold lone surrogates, which SQLite refuses: escape them."""
    if text is None:
        return None
    return text.replace("\\", "\\\\").encode("utf-8", "backslashreplace").decode("utf-8")


def _restored(text: Any) -> Any:
    """Inverse of `_escaped`."""
    if text is None or "\\" not in text:
        return text
    parts = text.split("\\\\")
    return "\\".join(_surrogates(part) for part in parts)


def _surrogates(text: str) -> str:
    head, *rest = text.split("\\u")
    return head + "".join(chr(int(piece[:4], 16)) + piece[4:] for piece in rest)
