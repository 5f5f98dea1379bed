"""Errors that name the file, the value and the remedy, in one line; optional imports."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

LONGEST_MESSAGE = 2000
"""Characters of an error about a file."""
LONGEST = 300
"""Characters of a parser's own message that are repeated."""


class FileError(ValueError):
    """A file cannot be used as it is. The message names the file and says why.

    Names and values in it come from the file, so its length is bounded.
    """

    def __init__(self, message: str) -> None:
        super().__init__(clip(message, LONGEST_MESSAGE))


@contextmanager
def naming(
    path: Path | str, what: str, remedy: str = "", kind: type[FileError] = FileError
) -> Iterator[None]:
    """Turn any error of the block into a `kind` that names `path`.

    Parsers raise nearly anything on a damaged file: the block should hold little besides their
    call. A `FileError` that names `path` keeps its message; a missing package and Ctrl-C pass
    unchanged.
    """
    try:
        yield
    except FileError as error:
        is_named = str(path) in str(error)
        if is_named and isinstance(error, kind):
            raise
        raise kind(str(error) if is_named else f"{path}: {error}") from error
    except ImportError:
        raise
    except Exception as error:
        ending = f"; {remedy}" if remedy else ""
        raise kind(f"{path} is not {what} ({reason(error, path)}){ending}") from error


def reason(error: BaseException, path: Path | str = "") -> str:
    """The message in one bounded line, without the path."""
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error)[: 20 * LONGEST]
    if str(path):
        text = text.replace(str(path), Path(path).name)
    line = clip(" ".join(text.split()), LONGEST)
    if isinstance(error, KeyError):
        return f"no {line}"
    return line or type(error).__name__


OS_WORDS = {
    errno.ENOTDIR: "a part of this path is a file, not a folder",
    errno.EISDIR: "is a folder; a file is needed",
    errno.ENOENT: "does not exist",
    errno.EEXIST: "exists already",
    errno.EACCES: "permission denied; check who owns it",
    errno.ENOSPC: "no space left on the disk",
    errno.EROFS: "lies on a disk that cannot be written to",
    errno.ENAMETOOLONG: "the name is too long",
}


def error_words(error: BaseException) -> str:
    """The message; an error of the system without its number, the path first."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    words = OS_WORDS.get(error.errno or 0, error.strerror)
    if error.filename is None:
        return words
    return f"{clip(str(error.filename), LONGEST_MESSAGE)}: {words}"


def clip(text: str, limit: int = 80) -> str:
    """Shorten text to at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


COMPARED = 2000
"""Names among which the nearest is looked for."""


class DataError(FileError):
    """The data cannot be used as it is. The message names the file, the row and the remedy.

    Parameters stand in backticks, such as `allow_outside`: the command line shows them as options.
    """


class MissingExtraError(ImportError):
    """A package is not installed; the message names the extra that provides it."""


class DataWarning(UserWarning):
    """The data can be used, but not quite as it is."""


def require(module: str, extra: str, purpose: str) -> Any:
    """The module, or an error that names the extra that provides it."""
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


class NetworkError(FileError):
    """The network cannot be built or loaded as requested. The message names value and remedy."""


class NetworkWarning(UserWarning):
    """The network can be used, but not exactly as requested."""


def unknown_choice(kind: str, name: str, known: Iterable[str]) -> NetworkError:
    """Return the error `there is no network 'resnet9'; did you mean 'resnet8'? There are: ...`."""
    names = list(known)
    hint = nearest(name, names) or "."
    choices = f" There are: {', '.join(names)}" if names else " There are none"
    return NetworkError(f"there is no {kind} {clip(repr(name))}{hint}{choices}")
