"""Errors and warnings about building or loading a network."""

from __future__ import annotations

from collections.abc import Iterable

from csot._core.errors import FileError, clip, nearest


class NetworkError(FileError):
    """The network cannot be built or loaded as requested. The message names value and remedy."""


class NetworkWarning(UserWarning):
    """The network can be used, but not exactly as requested."""


def unknown(kind: str, name: str, known: Iterable[str]) -> NetworkError:
    """Return the error `there is no network 'resnet9'; did you mean 'resnet8'? There are: ...`."""
    names = list(known)
    hint = nearest(name, names) or "."
    choices = f" There are: {', '.join(names)}" if names else " There are none"
    return NetworkError(f"there is no {kind} {clip(repr(name))}{hint}{choices}")
