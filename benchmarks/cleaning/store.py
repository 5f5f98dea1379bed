"""Results on disk, so that a run goes on where another stopped."""

from __future__ import annotations

import ast
import hashlib
import json
import os
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def code_version(*places: Path) -> str:
    """A digest of the Python code at the places; comments and layout do not count."""
    found = hashlib.sha1(usedforsecurity=False)
    for place in places:
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        for file in files:
            found.update(ast.unparse(ast.parse(file.read_text(encoding="utf-8"))).encode())
    return found.hexdigest()[:16]


class Store:
    """Records by key in a JSON file; one that another version of the code wrote does not count."""

    def __init__(self, path: Path, version: str) -> None:
        self.path = path
        self.version = version
        self.about: Record = {}
        self._records: dict[str, Record] = {}
        if path.exists():
            held = json.loads(path.read_text(encoding="utf-8"))
            self._records = held.get("cells", {}) if isinstance(held, dict) else {}

    def get(self, key: str, fingerprint: str) -> Record | None:
        record = self._records.get(key)
        if record is None:
            return None
        same = record["version"] == self.version and record["fingerprint"] == fingerprint
        return record if same else None

    def any_version(self, key: str, fingerprint: str) -> Record | None:
        record = self._records.get(key)
        return record if record is not None and record["fingerprint"] == fingerprint else None

    def names(self, key: str, part: str) -> list[str]:
        """What a part of the record has, whichever code and data it is from."""
        return list(self._records.get(key, {}).get(part, {}))

    def put(self, key: str, fingerprint: str, record: Record) -> Record:
        """Keep the record, and write the file at once."""
        stamped = record | {"version": self.version, "fingerprint": fingerprint}
        self._records[key] = stamped
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        text = json.dumps({"about": self.about, "cells": self._records}, indent=1)
        part.write_text(text + "\n", encoding="utf-8")
        os.replace(part, self.path)
        return stamped
