"""Whatever a parser raises, as one line that names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    """Turn any error of the block into a ``kind`` that names ``path``.

    Parsers raise nearly anything on a damaged file: the block should hold little besides their
    call. A `FileError` that names ``path`` keeps its message; a missing package and Ctrl-C pass
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


def clip(text: str, limit: int = 80) -> str:
    """At most ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
