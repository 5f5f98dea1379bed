"""Noise as it is written: one text for each value."""

from __future__ import annotations

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
