"""Parse YAML of presets, runs and `--set` in bounded time and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from csot._core.errors import FileError, naming
from csot._core.files import read_text

LARGEST = 1 << 20
"""Bytes; presets have about 4,000, and ten thousand class names need 200,000."""
EVENTS = 100_000
"""Scalars and brackets, as written."""
NODES = 200_000
"""The same after every alias has been expanded."""
DEPTH = 50
SCALAR = 20_000
"""Characters of one value: parsing long numbers of YAML 1.1 takes quadratic time."""
NUMBER = 1000
"""Characters of a number; Python does not print integers of more than 4,300 digits."""
NUMBER_KEY = 18
"""Characters of a number that is a key: longer ones can all have the same hash, and take quadratic
time."""
TEXT = "tag:yaml.org,2002:str"
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path) -> Any:
    """Parse a file; errors name it."""
    return parse_yaml(read_text(path, LARGEST), str(path))


def parse_yaml(text: str, where: str) -> Any:
    """Parse text into plain data; `where` names the source in errors."""
    with naming(where, "valid YAML"):
        if len(text) > LARGEST:
            raise ValueError(f"{len(text):,} characters; at most {LARGEST:,} are read")
        _check_events(text)
        loader = LOADER(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            if _expanded(node, {}) > NODES:
                raise FileError(f"{where}: its aliases stand for more than {NODES:,} values")
            return loader.construct_document(node)
        finally:
            loader.dispose()


def _check_events(text: str) -> None:
    """Check depth and counts before anything is built, as composing is recursive."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=LOADER)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent) and len(event.value) > SCALAR:
            raise ValueError(f"a value of {len(event.value):,} characters")
        if depth > DEPTH or count > EVENTS:
            raise ValueError(f"more than {DEPTH} levels or {EVENTS:,} values")


def _expanded(node: yaml.Node, known: dict[int, int]) -> int:
    """Number of nodes with every alias expanded; more than NODES if an alias contains itself."""
    if id(node) not in known:
        known[id(node)] = NODES + 1  # stays so if the node contains itself
        parts: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
            for key, _ in node.value:
                _check_number(key, NUMBER_KEY)
        elif isinstance(node, yaml.SequenceNode):
            parts = node.value
        else:
            _check_number(node, NUMBER)
        known[id(node)] = 1 + sum(_expanded(part, known) for part in parts)
    return known[id(node)]


def _check_number(node: yaml.Node, limit: int) -> None:
    if isinstance(node, yaml.ScalarNode) and node.tag != TEXT and len(node.value) > limit:
        raise ValueError(f"a number of {len(node.value):,} characters")
