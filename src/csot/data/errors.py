"""What goes wrong while data is read: said in one sentence, with the remedy."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from itertools import islice
from typing import Any

from csot.untrusted.errors import FileError, clip

COMPARED = 2000
"""Names among which the nearest is looked for."""


class DataError(FileError):
    """The data cannot be used as it is. The message names the file, the row and the remedy."""


class MissingExtraError(ImportError):
    """A package is not installed; the message names the extra that brings it."""


class DataWarning(UserWarning):
    """The data can be used, but not quite as it is."""


def require(module: str, extra: str, purpose: str) -> Any:
    """The module, or an error that names the extra which brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{purpose} needs the package {error.name}: pip install 'csot[{extra}]'"
        ) from error


def nearest(name: str, known: Iterable[object]) -> str:
    """`; did you mean 'x'?`, or nothing where no known name is near."""
    # Comparing costs the product of two lengths.
    names = [clip(str(value)) for value in islice(known, COMPARED)]
    by_lower = {name.lower(): name for name in names}
    found = get_close_matches(clip(name).lower(), list(by_lower), n=1, cutoff=0.6)
    return f"; did you mean {by_lower[found[0]]!r}?" if found else ""


def listed(values: Iterable[object], limit: int = 12) -> str:
    """`a, b, c`, cut after `limit` values."""
    every = [clip(str(value)) for value in values]
    rest = len(every) - limit
    return ", ".join(every[:limit]) + (f" and {rest} more" if rest > 0 else "")
