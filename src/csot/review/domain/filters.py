"""Which rows, in which order."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlencode

import numpy as np

from csot._core.array_types import Bools, Ints
from csot.review.domain.ledger import CODES, Person
from csot.review.domain.run_catalogue import Catalogue
from csot.runs import STATUSES

ODDITIES = ("conflict", "duplicate", "stranger", "rare")
CHANGE_FILTERS = ("changed", "unchanged")
STATUS_FILTERS = ("flagged", "any", *CHANGE_FILTERS, *STATUSES, "unlabelled", "verified", *ODDITIES)
DECIDED_FILTERS = ("no", "any", "yes", *CODES)
ORDERS = ("score", "confidence", "doubt", "random", "given", "group")
KEPT = 16
"""Orders that are kept, so that a step costs nothing."""


@dataclass(frozen=True)
class Filter:
    """The filters of a reviewer. Classes are numbers, -1 for rows without a label."""

    given: int | None = None
    suggested: int | None = None
    status: str = "flagged"
    low: float = 0.0
    high: float = 1.0
    """Bounds of the confidence."""
    decided: str = "no"
    order: str = "score"

    def query(self, **others: Any) -> str:
        """Query string of an address, without defaults."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        kept = {name: value for name, value in own.items() if value != getattr(Filter(), name)}
        return urlencode({**kept, **{k: v for k, v in others.items() if v is not None}})

    def but(self, **changes: Any) -> Filter:
        return replace(self, **changes)


def parse_filter(query: Mapping[str, str]) -> Filter:
    """Read the filters from a query; an error names an invalid value."""

    def choice(name: str, allowed: tuple[str, ...], default: str) -> str:
        value = query.get(name) or default
        if value not in allowed:
            raise ValueError(f"{name}={value}: choose one of {', '.join(allowed)}")
        return value

    def number(name: str) -> int | None:
        value = query.get(name, "")
        if not value:
            return None
        if not value.lstrip("-").isdecimal() or len(value) > 9:
            raise ValueError(f"{name}={value}: give the number of a class")
        return int(value)

    def share(name: str, default: float) -> float:
        try:
            value = float(query.get(name) or default)
        except ValueError:
            value = math.nan
        if not 0 <= value <= 1:
            raise ValueError(f"{name}={query.get(name)}: give a number from 0 to 1")
        return value

    return Filter(
        given=number("given"),
        suggested=number("suggested"),
        status=choice("status", STATUS_FILTERS, "flagged"),
        low=share("low", 0.0),
        high=share("high", 1.0),
        decided=choice("decided", DECIDED_FILTERS, "no"),
        order=choice("order", ORDERS, "score"),
    )


@dataclass(frozen=True, eq=False)
class Ordered:
    """The rows of a filter, whether decided or not, and where each stands."""

    rows: Ints
    rank: Ints
    """(N,): position in `rows`, or where it would be."""


class Selector:
    """Rows by filter. What does not depend on decisions is kept from one request to the next."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._kept: OrderedDict[Filter, Ordered] = OrderedDict()
        self._lock = threading.Lock()
        rng = np.random.default_rng(0)
        self._shuffled = rng.permutation(len(catalogue)).astype(np.int64)

    def ordered(self, wanted: Filter) -> Ordered:
        key = wanted.but(decided="any")
        with self._lock:
            if key not in self._kept:
                self._kept[key] = self._make(key)
                if len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            return self._kept[key]

    def rows(self, wanted: Filter, person: Person) -> Ints:
        """Rows in order, only those whose decision fits."""
        rows = self.ordered(wanted).rows
        return rows[_fits(wanted, person)[rows]]

    def step(self, wanted: Filter, person: Person, row: int, by: int) -> int | None:
        """The next (`by` = 1) or previous (-1) fitting row; `row` itself need not fit."""
        if by > 0:
            return next(iter(self.ahead(wanted, person, row, 1)), None)
        rows = self.rows(wanted, person)
        place = self._place(wanted, rows, row) - 1
        return int(rows[place]) if place >= 0 else None

    def ahead(self, wanted: Filter, person: Person, row: int, count: int) -> list[int]:
        """The fitting rows that come after `row`."""
        rows = self.rows(wanted, person)
        place = self._place(wanted, rows, row)
        place += bool(place < len(rows) and rows[place] == row)
        found: list[int] = rows[place : place + count].tolist()
        return found

    def position(self, wanted: Filter, person: Person, row: int) -> tuple[int, int] | None:
        """The number of a row in its list, from 1, and the length; None if it is not in it.

        A list of undecided rows counts those decided meanwhile, so that the numbers go up.
        """
        kept = wanted.but(decided="any") if wanted.decided == "no" else wanted
        rows = self.rows(kept, person)
        place = self._place(kept, rows, row)
        return (place + 1, len(rows)) if place < len(rows) and rows[place] == row else None

    def window(
        self, wanted: Filter, person: Person, start: int | None, size: int, back: bool = False
    ) -> tuple[Ints, int, int]:
        """`size` fitting rows from row `start` on (or before it), their place, and the total.

        The window starts at a row, not at a number: rows that were decided meanwhile leave the
        list, and none may be skipped for that.
        """
        rows = self.rows(wanted, person)
        place = 0 if start is None else self._place(wanted, rows, start)
        if back:
            place = max(place - size, 0)
        elif place >= len(rows):
            place = max(len(rows) - size, 0)
        return rows[place : place + size], place, len(rows)

    def _place(self, wanted: Filter, rows: Ints, row: int) -> int:
        rank = self.ordered(wanted).rank
        return int(np.searchsorted(rank[rows], rank[row]))

    def _make(self, wanted: Filter) -> Ordered:
        order = self._order(wanted.order)
        rows = order[self._mask(wanted)[order]]
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return Ordered(rows, rank)

    def _order(self, order: str) -> Ints:
        c = self._catalogue
        score = np.nan_to_num(c.score, nan=2.0)  # rows without a label last
        keys = {
            "score": (score,),
            "confidence": (-c.confidence,),
            "doubt": (c.confidence,),
            "random": (),
            "given": (score, c.suggested, c.given),
            "group": (score, c.odd.group, c.odd.group < 0),
        }[order]
        return np.lexsort(keys) if keys else self._shuffled

    def _mask(self, wanted: Filter) -> Bools:
        c = self._catalogue
        masks: dict[str, Bools] = {
            "flagged": c.flagged,
            "any": np.ones(len(c), dtype=np.bool_),
            "changed": c.changes,
            "unchanged": c.flagged & ~c.differs,
            "unlabelled": c.given < 0,
            "verified": c.locked,
            "conflict": c.odd.conflict,
            "duplicate": c.odd.duplicate,
            "stranger": c.odd.stranger,
            "rare": c.odd.rare,
        }
        mask = masks.get(wanted.status)
        if mask is None:
            mask = c.status == [str(name) for name in STATUSES].index(wanted.status)
        if wanted.given is not None:
            mask = mask & (c.given == wanted.given)
        if wanted.suggested is not None:
            mask = mask & (c.suggested == wanted.suggested)
        if (wanted.low, wanted.high) != (0.0, 1.0):
            mask = mask & (c.confidence >= wanted.low) & (c.confidence <= wanted.high)
        return mask


def _fits(wanted: Filter, person: Person) -> Bools:
    if wanted.decided == "any":
        return np.ones(len(person.action), dtype=np.bool_)
    if wanted.decided == "no":
        return ~person.decided
    if wanted.decided == "yes":
        return person.decided
    return np.equal(person.action, CODES[wanted.decided])
