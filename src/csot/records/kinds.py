"""The kind of ids and labels, so that a CSV gives back the integers or the text it was given."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import pandas as pd

Kind = Literal["boolean", "integer", "float", "text"]
KINDS: tuple[Kind, ...] = ("boolean", "integer", "float", "text")


def is_missing(value: Any) -> bool:
    """None, NaN, NaT or NA."""
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))


def kind_of(values: Iterable[Any]) -> Kind:
    """The narrowest kind that holds all values but the missing ones.

    Integers that a missing neighbour turned into floats (3.0 beside 3) are integers. Anything that
    is neither a number nor a boolean, mixtures included, is text.
    """
    seen = [value for value in values if not is_missing(value)]
    booleans = [isinstance(value, bool | np.bool_) for value in seen]
    if not seen or (any(booleans) and not all(booleans)):
        return "text"
    if all(booleans):
        return "boolean"
    if not all(isinstance(value, Real) for value in seen):
        return "text"
    some_integer = any(isinstance(value, Integral) for value in seen)
    return "integer" if some_integer and all(value == value // 1 for value in seen) else "float"


def to_text(value: Any, kind: Kind) -> str:
    """What the CSV holds; the empty string where the value is missing."""
    if is_missing(value):
        return ""
    if kind == "integer":
        return str(int(value))
    return repr(float(value)) if kind == "float" else str(value)


def from_text(text: str, kind: Kind) -> Any:
    """Inverse of `to_text`; None where the text is empty."""
    if text == "":
        return None
    if kind == "boolean":
        return text == "True"
    if kind == "integer":
        return int(text)
    return float(text) if kind == "float" else text


def text_column(values: Iterable[Any], kind: Kind) -> pd.Series[Any]:
    """A column of the values' texts."""
    return pd.Series([to_text(value, kind) for value in values], dtype=object)


def read_column(texts: Iterable[str], kind: Kind) -> pd.Series[Any]:
    """A column of ``kind`` from its texts, with None for what is missing."""
    found = [from_text(text, kind) for text in texts]
    # Pandas would make floats of integers beside None, and its own text type refuses file names
    # that are not Unicode.
    plain = kind == "text" or any(value is None for value in found) or not found
    return pd.Series(found, dtype=object if plain else None)
