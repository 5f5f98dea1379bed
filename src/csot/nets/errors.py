"""What goes wrong while a network is built or loaded: said in one sentence, with the remedy."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from csot._core.errors import FileError, clip


class NetworkError(FileError):
    """The network cannot be built or loaded as asked. The message names the value and a remedy."""


class NetworkWarning(UserWarning):
    """The network can be used, but not quite as asked."""


def unknown(kind: str, name: str, known: Iterable[str]) -> NetworkError:
    """`there is no network 'resnet9'; did you mean 'resnet8'? There are: ...`."""
    names = list(known)
    near = get_close_matches(clip(name).lower(), names, n=1, cutoff=0.6)
    guess = f"; did you mean {near[0]!r}?" if near else "."
    there = f" There are: {', '.join(names)}" if names else " There are none"
    return NetworkError(f"there is no {kind} {clip(repr(name))}{guess}{there}")
