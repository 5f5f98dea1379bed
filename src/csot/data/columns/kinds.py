"""What a column of a table is: numbers, categories, dates, embeddings; or why it is left out."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from csot._core.array_types import Floats
from csot._core.errors import DataError, DataWarning, clip
from csot._core.missing import is_missing
from csot.data.columns import parse_cells as cells

NUMBERS = ("number", "money", "percent")
POSTAL = frozenset({"zip", "zipcode", "postcode", "postal", "postalcode", "plz"})
PHONE = frozenset({"phone", "telephone", "tel", "mobile", "fax"})
IDS = frozenset({"id", "ids", "uid", "uuid", "guid", "ssn", "iban", "isbn", "email", "rownum"})
SUSPECTS = {"a postal code": POSTAL, "a phone number": PHONE, "an id": IDS}
FEW = 20
"""So many different values of a suspect column are categories; and so few rows show no pattern."""
NEARLY_ALL = 0.9
LONGEST_CODE = 6
"""Digits from which whole numbers of one length, all different, look like ids."""
WORDS = 3
"""Mean number of words from which a column is running text."""
MOST_CATEGORIES = 100
"""Most categories of a column; the rarest are pooled."""
RARE, LEAST = 10, 2
"""A category of fewer rows is pooled: 1 % of the rows, but at least 2 and at most 10."""


@dataclass(frozen=True)
class Kind:
    """What a column is, and how its cells are read."""

    name: str
    kind: str
    """`number`, `money`, `percent`, `category`, `date` or `embedding`."""
    form: str = ""
    """The decimal sign of numbers, the format of dates."""
    size: int = 1
    """Numbers per cell of an embedding."""


@dataclass(frozen=True)
class Ignored:
    """A column that is not used, and why."""

    name: str
    reason: str


def suspect(name: str) -> str | None:
    """What a column of that name probably is, if it tells samples apart rather than describes them.

    `customer_id`, `zipCode` and `Phone 2` are suspects; `width` and `idle` are not.
    """
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())
    return next((what for what, known in SUSPECTS.items() if known & set(words)), None)


def kind_of(column: pd.Series[Any], name: str, is_chosen: bool, where: str) -> Kind | Ignored:
    """The kind of a column. One that the user has chosen is never doubted, only refused.

    `where` names the table in warnings.
    """
    found = _kind(column, name, is_chosen, where)
    if isinstance(found, Kind) and found.kind == "category":
        kept, _ = categories_of(cells.category_texts(column))
        found = found if kept else Ignored(name, "every value is rare")
    if is_chosen and isinstance(found, Ignored):
        raise DataError(
            f"{where}: column {name!r} cannot be used as a feature: {found.reason}; leave it out "
            "of `features`"
        )
    return found


def _kind(column: pd.Series[Any], name: str, is_chosen: bool, where: str) -> Kind | Ignored:
    if not is_chosen and name.startswith("Unnamed:"):
        return Ignored(name, "looks like row numbers")
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return _never_empty(name, cells.to_days(column, cells.ISO), Kind(name, "date", cells.ISO))
    if column.dtype == object:
        embedding = _embedding(column, name, where)
        if embedding is not None:
            return embedding
    doubt = suspect(name)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _category(cells.texts(column), name, doubt, is_chosen)
    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(
        column.dtype
    ):
        numbers = cells.to_numbers(column)
        return _number(numbers, Kind(name, "number", "."), doubt, is_chosen)
    values = cells.texts(column)
    present = list(dict.fromkeys(value for value in values if not cells.is_word_for_missing(value)))
    if not present:
        return Ignored(name, "empty")
    decimal = cells.decimal_sign(present)
    numbers = cells.parse_numbers(values, decimal)
    if _are_numbers(numbers, values, name, where):
        kind = Kind(name, cells.unit_of(present), decimal)
        return _number(numbers, kind, doubt, is_chosen)
    form = cells.date_format(present)
    if form is not None:
        return Kind(name, "date", form)
    return _category(values, name, doubt, is_chosen)


def _never_empty(name: str, values: Floats, kind: Kind) -> Kind | Ignored:
    return Ignored(name, "empty") if np.isnan(values).all() else kind


def _are_numbers(numbers: Floats, values: list[str], name: str, where: str) -> bool:
    """Whether the values read as numbers, except for a few cells, which a warning names."""
    unread = np.flatnonzero(np.isnan(numbers)).tolist()
    stray = [row for row in unread if not cells.is_word_for_missing(values[row])]
    read = len(numbers) - len(unread)
    if read == 0 or len(stray) > max(1, 0.1 * read) or 2 * len(stray) > read:
        return False
    if stray:
        warnings.warn(
            f"{where}: column {name!r} holds {len(stray):,} cell(s) that are not numbers, first "
            f"{clip(repr(values[stray[0]]))} in row {stray[0]} (from 0): they count as missing",
            DataWarning,
            stacklevel=2,
        )
    return True


def _number(numbers: Floats, kind: Kind, doubt: str | None, is_chosen: bool) -> Kind | Ignored:
    name = kind.name
    present = numbers[~np.isnan(numbers)]
    if not len(present):
        return Ignored(name, "empty")
    values = np.unique(present)
    is_whole = bool(np.isfinite(present).all() and (present == np.floor(present)).all())
    if kind.kind == "number" and doubt is not None and is_whole:
        if len(values) <= FEW < len(present) or is_chosen:
            return Kind(name, "category")
        return Ignored(name, f"looks like {doubt}")
    if is_chosen or not is_whole or len(values) < len(present) or len(present) <= FEW:
        return kind
    if values[-1] - values[0] < 2 * len(values):
        return Ignored(name, "looks like row numbers")
    digits = {len(f"{abs(value):.0f}") for value in values.tolist()}
    if len(digits) == 1 and digits.pop() >= LONGEST_CODE:
        return Ignored(name, "looks like an id: every value differs")
    return kind


def _category(values: list[str], name: str, doubt: str | None, is_chosen: bool) -> Kind | Ignored:
    present = [value for value in values if value]
    counts = pd.Series(present, dtype=object).value_counts()
    if counts.max() == 1 or (len(counts) > NEARLY_ALL * len(present) and not is_chosen):
        if np.mean([len(value.split()) for value in counts.index]) >= WORDS:
            return Ignored(name, "is running text; name it with `text`")
        return Ignored(name, "looks like an id: nearly every value differs")
    if len(counts) == 1 and len(present) == len(values):
        return Ignored(name, "the same in every row")
    if doubt is not None and not is_chosen and len(counts) > FEW:
        return Ignored(name, f"looks like {doubt}")
    return Kind(name, "category")


def categories_of(values: list[str]) -> tuple[list[str], bool]:
    """The values that get a feature of their own, and whether others are left, to be pooled."""
    counts = Counter(values)
    rare = max(LEAST, min(RARE, len(values) // 100))
    kept = [value for value in sorted(counts) if counts[value] >= rare]
    if len(kept) >= MOST_CATEGORIES:  # the pooled ones are one of them
        kept = sorted(sorted(kept, key=counts.__getitem__)[1 - MOST_CATEGORIES :])
    return kept, len(kept) < len(counts)


def _embedding(column: pd.Series[Any], name: str, where: str) -> Kind | Ignored | None:
    """A list of numbers in every cell; None where the cells are not lists."""
    first = next((cell for cell in column if not is_missing(cell)), None)
    if isinstance(first, dict | set | bytes):
        return Ignored(name, f"holds {type(first).__name__} values")
    if not isinstance(first, list | tuple | np.ndarray):
        return None
    size = len(first)
    for row, cell in enumerate(column):
        length = len(cell) if isinstance(cell, list | tuple | np.ndarray) else None
        if length != size:
            found = "no list" if length is None else f"a list of {length}"
            return Ignored(name, f"holds lists of {size} and, in row {row}, {found}")
    try:
        matrix = to_matrix(column, size)
    except (ValueError, TypeError):
        return Ignored(name, "holds lists of something else than numbers")
    bad = np.flatnonzero(~np.isfinite(matrix).all(1))
    if len(bad):
        raise DataError(f"{where}: column {name!r} holds NaN or infinity in row {bad[0]} (from 0)")
    return Kind(name, "embedding", size=size)


def to_matrix(column: pd.Series[Any], size: int) -> Floats:
    """(N, size) from a column of lists; ValueError or TypeError where that is not what it is."""
    matrix = np.array([np.asarray(cell, dtype=np.float64) for cell in column])
    if matrix.shape != (len(column), size) or size == 0:
        raise ValueError(f"lists of shape {matrix.shape[1:]}, not ({size},)")
    return matrix
