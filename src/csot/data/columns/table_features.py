"""A table -> a matrix of features; and how it was made as JSON, without pickle.

    numbers, money, percentages   median for missing cells, a flag that they were missing; scaled
    categories                    one column of 0 and 1 each, rare ones pooled
    dates                         days (scaled), and the time of year, week and day as cycles
    embeddings                    as they are, with one weight for all of their numbers

Scaled columns have mean 0 and deviation 1. One-hot columns and cycles are left as they are: all
columns of one category, or of one cycle, have together a variance of at most 1, so that no column
of the table counts much more than another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.preprocessing import StandardScaler

from csot._core.array_types import Floats
from csot._core.errors import DataError, listed, nearest
from csot.data.columns import parse_cells as cells
from csot.data.columns.kinds import NUMBERS, Ignored, Kind, categories_of, kind_of, to_matrix

SHOWN = 30
"""Columns that are listed."""
NOT_CHOSEN = "not chosen"


@dataclass(frozen=True)
class TableFeatures:
    """How each column of a table becomes features. Made by `fit`, or from JSON by `from_dict`."""

    used: list[Kind]
    ignored: list[Ignored] = field(default_factory=list)
    medians: dict[str, float] = field(default_factory=dict)
    """Medians of numbers, and of dates in days."""
    flagged: list[str] = field(default_factory=list)
    """Columns of numbers and dates that had missing cells."""
    categories: dict[str, list[str]] = field(default_factory=dict)
    """Categories of each column that have a feature of their own."""
    pooled: list[str] = field(default_factory=list)
    """Category columns with a feature for all other values."""
    mean: list[float] = field(default_factory=list)
    deviation: list[float] = field(default_factory=list)
    """Mean and deviation of each feature; 0 and 1 where it is not scaled."""

    @staticmethod
    def fit(
        table: pd.DataFrame,
        chosen: Sequence[str] | None = None,
        without: Collection[str | None] = (),
        where: str = "the table",
    ) -> TableFeatures:
        """Fit to the `chosen` columns, or to all that describe a sample, `without` some of them.

        Columns that look like ids, postal codes or running text are used only if they are chosen.
        """
        return TableFeatures.fit_encode(table, chosen, without, where)[0]

    @staticmethod
    def fit_encode(
        table: pd.DataFrame,
        chosen: Sequence[str] | None = None,
        without: Collection[str | None] = (),
        where: str = "the table",
    ) -> tuple[TableFeatures, Floats]:
        """`fit`, and what `encode` gives for the same table: its cells are parsed once."""
        names = [str(name) for name in table.columns if name not in without]
        found = [
            kind_of(table[name], name, chosen is not None, where) for name in (chosen or names)
        ]
        used = [one for one in found if isinstance(one, Kind)]
        ignored = [one for one in found if isinstance(one, Ignored)]
        if chosen is not None:
            ignored = [Ignored(name, NOT_CHOSEN) for name in names if name not in chosen]
        made = TableFeatures(used, ignored)
        if not used:
            return made, np.empty((len(table), 0))
        parsed = made._parsed(table, where)
        made = made._with_categories(parsed)._with_medians(parsed)
        encoded = made._encoded(parsed, table, where)
        return made._with_scale(encoded), encoded

    @property
    def names(self) -> list[str]:
        """The columns that are used."""
        return [one.name for one in self.used]

    @property
    def is_plain(self) -> bool:
        """Whether the features are the numbers of the table as they are, before scaling."""
        return not self.flagged and all(one.kind in NUMBERS for one in self.used)

    def of_kind(self, *kinds: str) -> list[Kind]:
        return [one for one in self.used if one.kind in kinds]

    def line(self, first: Sequence[str] = ()) -> str:
        """`uses a, b (category); ignores c (looks like an id)`; `first` is used as well."""
        named = [
            one.name if one.kind == "number" else f"{one.name} ({one.kind})" for one in self.used
        ]
        left = [
            one.name if one.reason == NOT_CHOSEN else f"{one.name} ({one.reason})"
            for one in self.ignored
        ]
        uses = f"uses {listed([*first, *named], SHOWN) or 'no column'}"
        return f"{uses}; ignores {listed(left, SHOWN)}" if left else uses

    def encode(self, table: pd.DataFrame, where: str = "the table") -> Floats:
        """(N, D) before scaling: numbers and days without gaps, flags, one-hot columns, cycles.

        Categories that did not occur in `fit` count as the pooled ones. A missing column is an
        error.
        """
        for name in self.names:
            if name not in table.columns:
                raise DataError(
                    f"{where} has no column {name!r}, which the features are made from; it has "
                    f"{listed(table.columns)}{nearest(name, table.columns)}"
                )
        return self._encoded(self._parsed(table, where), table, where)

    def scale(self, features: npt.NDArray[Any]) -> Floats:
        """Scale the features of `encode` like those of the table it was fitted to."""
        scaler = StandardScaler()
        scaler.mean_ = np.array(self.mean)
        scaler.scale_ = np.array(self.deviation)
        scaler.n_features_in_ = len(self.mean)
        return np.asarray(scaler.transform(features), dtype=np.float64)

    def transform(self, table: pd.DataFrame, where: str = "the table") -> Floats:
        """(N, D): encoded and scaled."""
        return self.scale(self.encode(table, where))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> TableFeatures:
        """What `as_dict` gave; KeyError, TypeError or ValueError where it is something else."""
        used = [Kind(**one) for one in values["used"]]
        ignored = [Ignored(**one) for one in values["ignored"]]
        made = TableFeatures(**{**values, "used": used, "ignored": ignored})
        try:
            made._check()
        except AttributeError as error:  # a list where a dict should be
            raise ValueError(str(error)) from error
        return made

    def _check(self) -> None:
        forms: dict[str, Sequence[str]] = dict.fromkeys(NUMBERS, (".", ","))
        forms |= {"date": cells.DATE_FORMATS, "category": ("",), "embedding": ("",)}
        if any(one.form not in forms.get(one.kind, ()) for one in self.used):
            raise ValueError("columns of an unknown kind or form")
        if len(set(self.names)) < len(set(self.used)):
            raise ValueError("a column of two kinds")
        numbers = {one.name for one in self.of_kind(*NUMBERS, "date")}
        if set(self.medians) != numbers or not set(self.flagged) <= numbers:
            raise ValueError("medians of other columns")
        if set(self.categories) != {one.name for one in self.of_kind("category")}:
            raise ValueError("categories of other columns")
        if not all(self.categories.values()):
            raise ValueError("a category column without a category")
        if not all(isinstance(word, str) for kept in self.categories.values() for word in kept):
            raise ValueError("categories that are not text")
        if len(set(self.pooled) & set(self.categories)) < len(self.pooled):
            raise ValueError("pooled categories of other columns")
        width = len(numbers) + len(self.flagged) + 6 * len(self.of_kind("date"))
        width += sum(map(len, self.categories.values())) + len(self.pooled)
        width += sum(one.size for one in self.of_kind("embedding"))
        if not len(self.mean) == len(self.deviation) == width:
            raise ValueError(f"a scale of {len(self.mean)} features instead of {width}")
        if not np.isfinite([*self.mean, *self.deviation, *self.medians.values()]).all():
            raise ValueError("numbers that are not finite")

    def _with_categories(self, parsed: Mapping[str, Any]) -> TableFeatures:
        found = {one.name: categories_of(parsed[one.name]) for one in self.of_kind("category")}
        kept = {name: words for name, (words, _) in found.items()}
        pooled = [name for name, (_, has_rest) in found.items() if has_rest]
        return TableFeatures(**{**vars(self), "categories": kept, "pooled": pooled})

    def _with_medians(self, parsed: Mapping[str, Any]) -> TableFeatures:
        names = [one.name for one in self.of_kind(*NUMBERS, "date")]
        medians = {name: float(np.nanmedian(parsed[name])) for name in names}
        flagged = [name for name in names if np.isnan(parsed[name]).any()]
        return TableFeatures(**{**vars(self), "medians": medians, "flagged": flagged})

    def _with_scale(self, encoded: Floats) -> TableFeatures:
        """Numbers and days are scaled one by one, an embedding as a whole if it is not alone."""
        width = encoded.shape[1]
        mean, deviation = np.zeros(width), np.ones(width)
        scaled = len(self.medians)
        if scaled:
            scaler = StandardScaler().fit(encoded[:, :scaled])
            mean[:scaled], deviation[:scaled] = scaler.mean_, scaler.scale_
        lists = sum(one.size for one in self.of_kind("embedding"))
        if lists and lists < width:
            others = (encoded[:, :-lists] / deviation[:-lists]).var(0).sum()
            deviation[width - lists :] = balance(encoded[:, -lists:], others)
        return TableFeatures(
            **{**vars(self), "mean": mean.tolist(), "deviation": deviation.tolist()}
        )

    def _parsed(self, table: pd.DataFrame, where: str) -> dict[str, Any]:
        """Numbers, days and words by column, in the order of the features."""
        parsed: dict[str, Any] = {}
        for one in self.used:
            if one.kind == "category":
                parsed[one.name] = cells.category_texts(table[one.name])
            elif one.kind != "embedding":
                parsed[one.name] = self._parsed_column(table, one, where)
        return parsed

    def _encoded(self, parsed: Mapping[str, Any], table: pd.DataFrame, where: str) -> Floats:
        numbers = [
            np.where(np.isnan(parsed[name]), median, parsed[name])
            for name, median in self.medians.items()
        ]
        numbers += [np.isnan(parsed[name]).astype(np.float64) for name in self.flagged]
        blocks = [np.array(numbers).reshape(len(numbers), len(table)).T]
        blocks += [self._one_hot(name, parsed[name]) for name in self.categories]
        blocks += [cells.date_parts(parsed[one.name]) for one in self.of_kind("date")]
        blocks += [self._matrix(table, one, where) for one in self.of_kind("embedding")]
        return np.concatenate([block for block in blocks if block.shape[1]], axis=1)

    def _one_hot(self, name: str, words: list[str]) -> Floats:
        kept = self.categories[name]
        places = {word: place for place, word in enumerate(kept)}
        found = [places.get(word, len(kept)) for word in words]
        return np.eye(len(kept) + 1)[found, : len(kept) + (name in self.pooled)]

    @staticmethod
    def _parsed_column(table: pd.DataFrame, one: Kind, where: str) -> Floats:
        if one.kind == "date":
            return cells.to_days(table[one.name], one.form)
        values = cells.to_numbers(table[one.name], one.form)
        infinite = np.flatnonzero(np.isinf(values))
        if len(infinite):
            row = int(infinite[0])
            raise DataError(
                f"{where}: features holds {values[row]} in row {row} (from 0), column "
                f"{one.name!r}; correct or empty the cell"
            )
        return values

    @staticmethod
    def _matrix(table: pd.DataFrame, one: Kind, where: str) -> Floats:
        try:
            matrix = to_matrix(table[one.name], one.size)
        except (ValueError, TypeError) as error:
            raise DataError(
                f"{where}: column {one.name!r} must hold a list of {one.size} numbers in each row "
                f"({error})"
            ) from error
        if not np.isfinite(matrix).all():
            raise DataError(f"{where}: column {one.name!r} holds NaN or infinity")
        return matrix


def balance(block: npt.NDArray[Any], variance: float) -> float:
    """What to divide `block` (N, D) by so that its columns have together that `variance`."""
    own = float(np.asarray(block, dtype=np.float64).var(0).sum())
    return float(np.sqrt(own / variance)) if own > 0 and variance > 0 else 1.0
