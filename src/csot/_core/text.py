"""Text made safe to print on a terminal and to break in a page; durations and noise as text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

KEPT = "\n\t"
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories that steer a terminal or the direction of writing, or are half a character."""
JOINERS = "\u200c\u200d\u00ad"
"""Format characters that ordinary words and emoji contain."""


def printable(text: str) -> str:
    """Replace control characters, so that no name can move the cursor, recolour or retitle.

    Line breaks and tabs stay. What is removed leaves a replacement character where it was.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(character if _is_harmless(character) else "\ufffd" for character in text)


def one_line(text: str) -> str:
    """`printable`, with all white space as single spaces."""
    return printable(" ".join(text.split()))


SEPARATED = r"(?<=[_/:;-])(?=\w)|(?<=[.,])(?=[^\W\d])|(?<=[^\d][.,])(?=\d)"


def breakable(name: str) -> Markup:
    """A name as HTML that may go on in a new line after a separator, but not in mid-word.

    Points and commas inside numbers are not separators.
    """
    return Markup("<wbr>").join(re.split(SEPARATED, name))


def is_unicode(text: str) -> bool:
    """Whether a text can be written; half a surrogate pair cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def check_texts(samples: Iterable[Any], name: str) -> list[str]:
    """The samples, if each is a text with something in it; `name` is for the error."""
    found = list(samples)
    for row, text in enumerate(found):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{name}[{row}] must be a text, got {text!r}")
    return found


def duration(seconds: float) -> str:
    """Format a duration: 40 seconds, 12 minutes, 3.5 hours, 2.1 days."""
    unit, size = "day", 86_400
    for name, scale, limit in (("hour", 3600, 172_800), ("minute", 60, 5400), ("second", 1, 90)):
        if seconds < limit:
            unit, size = name, scale
    count = seconds / size
    shown = f"{count:.1f}" if unit in ("hour", "day") and count < 10 else f"{count:.0f}"
    shown = shown.removesuffix(".0")
    return f"{shown} {unit}{'' if shown == '1' else 's'}"


def _is_harmless(character: str) -> bool:
    return (
        character in KEPT or character in JOINERS or unicodedata.category(character) not in HIDDEN
    )


WITHOUT_RATE = ("none", "matrix", "file")


def canonical_noise(text: str) -> str:
    """`sym:.90` -> `sym:0.9`, with options in alphabetical order; other texts as they are."""
    kind, _, rest = text.strip().partition(":")
    if kind in WITHOUT_RATE or not rest:
        return text.strip()
    number, *options = (part.strip() for part in rest.split(":"))
    try:
        rate = f"{float(number):g}"
    except ValueError:
        return text.strip()
    return ":".join([kind, rate, *sorted(options)])
