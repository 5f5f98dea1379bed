"""Text of users and files, made safe to print on a terminal and to break in a page."""

from __future__ import annotations

import re
import unicodedata

from markupsafe import Markup

KEPT = "\n\t"
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories that steer a terminal or the direction of writing, or are half a character."""
JOINERS = "\u200c\u200d\u00ad"
"""Format characters that ordinary words and emoji contain."""


def printable(text: str) -> str:
    """Without control characters, so that no name can move the cursor, recolour or retitle.

    Line breaks and tabs stay. What is removed leaves a replacement character where it was.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(character if _is_harmless(character) else "\ufffd" for character in text)


def one_line(text: str) -> str:
    """`printable`, with all white space as single spaces."""
    return printable(" ".join(text.split()))


def breakable(name: str) -> Markup:
    """A name as HTML that may go on in a new line after a separator, but not in mid-word."""
    return Markup("<wbr>").join(re.split(r"(?<=[_/.,:;-])(?=\w)", name))


def _is_harmless(character: str) -> bool:
    return (
        character in KEPT or character in JOINERS or unicodedata.category(character) not in HIDDEN
    )
