"""Cells as users write them -> numbers: money, percentages, thousands, dates, missing values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from csot._core.array_types import Floats
from csot._core.missing import is_missing

MISSING = frozenset({"", "na", "n/a", "nan", "nat", "null", "none", "-", "--", "?", "."})
"""Words for a missing number or date, in lower case. In a category column only "" is missing."""
CURRENCIES = "€$£¥₹"
CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN|BRL|MXN|CZK|HUF|KRW|ZAR"
MINUS = "\u2212-"
SPACES = "'\u2019 \u00a0\u202f"
"""What may stand between thousands, besides the other decimal sign."""
AMOUNT = re.compile(
    rf"(?P<open>\()?(?P<sign>[+{MINUS}]?)\s*(?P<before>[{CURRENCIES}]|{CODES})?\s*"
    rf"(?P<inner>[+{MINUS}]?)\s*(?P<digits>\d[\d.,{SPACES}]*|[.,]\d+)\s*"
    rf"(?P<after>[{CURRENCIES}%]|{CODES})?(?(open)\))"
)
GROUPED = {
    ".": re.compile(rf"(?:\d{{1,3}}(?:[,{SPACES}]\d{{3}})+|\d*)(?:\.\d*)?"),
    ",": re.compile(rf"(?:\d{{1,3}}(?:[.{SPACES}]\d{{3}})+|\d*)(?:,\d*)?"),
}
"""Patterns by decimal sign: digits in groups of three, or ungrouped."""
ISO = "ISO8601"
DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d")
WRITTEN = ("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y")
TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p")
DATE_FORMATS = (ISO, *(day + time for day in (*DAYS, *WRITTEN) for time in TIMES))
MAY_BE_DATE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{1,2} [A-Za-z]{3,9} \d{4}|[A-Za-z]{3,9} \d{1,2}, \d{4}"
)
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
SAMPLED = 500
"""Different values among which the format of dates is chosen."""


def cell_text(value: object) -> str:
    """Empty where the cell is missing."""
    return "" if is_missing(value) else str(value)


def texts(column: pd.Series[Any]) -> list[str]:
    """Every cell as text without outer spaces; empty where it is missing."""
    return [cell_text(cell).strip() for cell in column]


def category_texts(column: pd.Series[Any]) -> list[str]:
    """`3` and `3.0` are one category: a missing cell turns whole numbers into fractions."""
    if pd.api.types.is_float_dtype(column.dtype):
        return [f"{cell:.0f}" if cell == np.floor(cell) else _fraction(cell) for cell in column]
    return texts(column)


def _fraction(cell: float) -> str:
    return "" if np.isnan(cell) else repr(cell)


def is_word_for_missing(text: str) -> bool:
    return text.lower() in MISSING


def decimal_sign(values: Iterable[str]) -> str:
    """`.` or `,`: whichever more of the amounts can only mean; `.` if none decides."""
    votes = {".": 0, ",": 0}
    for value in values:
        found = AMOUNT.fullmatch(value)
        if found is None:
            continue
        digits = found["digits"].rstrip()
        fits = [sign for sign in votes if GROUPED[sign].fullmatch(digits)]
        if len(fits) == 1:
            votes[fits[0]] += 1
    return "," if votes[","] > votes["."] else "."


def parse_amount(value: str, decimal: str) -> float:
    """`€1,234.50`, `(3.20)`, `12 %`, `1 234`: NaN where it is not a number."""
    found = AMOUNT.fullmatch(value)
    if found is None:
        return np.nan
    digits = found["digits"].rstrip()
    if GROUPED[decimal].fullmatch(digits) is None:
        return np.nan
    plain = re.sub(r"[^\d.,]", "", digits)
    plain = plain.replace("," if decimal == "." else ".", "").replace(decimal, ".")
    number = float(plain)
    is_negative = (found["open"] is not None) != (found["sign"] + found["inner"] in tuple(MINUS))
    if found["after"] == "%":
        number /= 100
    return -number if is_negative else number


def unit_of(values: Iterable[str]) -> str:
    """`money` or `percent` where most of the amounts say so, else `number`."""
    found = [match for value in values if (match := AMOUNT.fullmatch(value))]
    percent = sum(match["after"] == "%" for match in found)
    money = sum(bool(match["before"]) or match["after"] not in (None, "%") for match in found)
    if 2 * percent > len(found):
        return "percent"
    return "money" if 2 * money > len(found) else "number"


def to_numbers(column: pd.Series[Any], decimal: str = ".") -> Floats:
    """(N,); NaN where a cell is missing or not a number."""
    if pd.api.types.is_timedelta64_dtype(column.dtype):
        return np.asarray(column.dt.total_seconds(), dtype=np.float64)
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return parse_numbers(texts(column), decimal)


def parse_numbers(values: list[str], decimal: str) -> Floats:
    """The same, of text."""
    known = {value: _number(value, decimal) for value in dict.fromkeys(values)}
    return np.array([known[value] for value in values], dtype=np.float64)


def _number(value: str, decimal: str) -> float:
    if is_word_for_missing(value):
        return np.nan
    if decimal == ".":
        try:
            return float(value) if "_" not in value else np.nan
        except ValueError:
            pass
    return parse_amount(value, decimal)


def _shape(text: str) -> str:
    """Digits and words in short, without spaces: what a format can fit has its shape."""
    short = re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "0", text))
    return re.sub(r"\s", "", short)


SHAPES = {
    form: _shape(re.sub("%[bBp]", "a", re.sub("%[dmYHMSI]", "0", form))) for form in DATE_FORMATS
}


def date_format(values: list[str]) -> str | None:
    """The format that fits most of the values; None unless it fits nearly all."""
    sample = values[:: max(1, len(values) // SAMPLED)][:SAMPLED]
    if (
        not sample
        or sum(MAY_BE_DATE.match(value) is not None for value in sample) < len(sample) / 2
    ):
        return None
    cells = pd.Series(sample, dtype=object)
    shapes = {_shape(value) for value in sample}
    has_iso = any(ISO_DATE.match(value) for value in sample)
    best, most = None, 0.95
    for form in DATE_FORMATS:
        if not (has_iso if form == ISO else SHAPES[form] in shapes):
            continue  # it would fit none
        share = float(np.isfinite(to_days(cells, form)).mean())
        if share == 1:
            return form
        if share >= most:
            best, most = form, np.nextafter(share, 2)
    return best


def to_days(column: pd.Series[Any], form: str) -> Floats:
    """Days since 1970, with the time of day as a fraction; NaN where a cell is not a date."""
    if not pd.api.types.is_datetime64_any_dtype(column.dtype):
        cells = texts(column)
        if form == ISO:  # which would take any four digits for a year
            cells = [cell if ISO_DATE.match(cell) else "" for cell in cells]
        column = pd.Series(cells, dtype=object)
        moments = pd.to_datetime(column, format=form, errors="coerce", utc=True)
    else:
        moments = pd.to_datetime(column, utc=True)
    # In nanoseconds, the unit of `Timestamp(0)`, the year 2821 would be too far away.
    days = (moments - pd.Timestamp(0, tz="UTC").as_unit("s")) / pd.Timedelta(days=1)
    return np.asarray(days.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def date_parts(days: Floats) -> Floats:
    """(N, 6): half the sine and cosine of the time of year, week and day; 0 without a date.

    Half, so that the three cycles together count less than the days themselves.
    """
    year = days / 365.2425
    week = days / 7
    angles = 2 * np.pi * np.stack([year % 1, week % 1, days % 1], axis=1)
    parts = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(days), 6)
    return np.where(np.isnan(days)[:, None], 0.0, parts / 2)
