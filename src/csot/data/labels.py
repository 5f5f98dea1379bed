"""Labels and ids as the user wrote them: checked, of one type, and as class numbers."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from csot._core.errors import DataError, DataWarning, clip, listed, naming, nearest
from csot._core.missing import is_missing
from csot.data.columns.parse_cells import cell_text
from csot.data.types import LabelledData, Labels

DIGITS = 18
"""Digits of the longest number that 64 bits always hold."""


def tidy_labels(values: Iterable[object], where: str) -> Labels:
    """All `int` or all `str`, (N,); None where a label is missing: empty, NaN, None or -1.

    Text that reads as whole numbers throughout becomes `int`, so that class 10 comes after 9.
    """
    tidy = [_tidy(value) for value in values]
    present = [label for label in tidy if label is not None]
    numbers = [label for label in present if isinstance(label, int)]
    out = np.empty(len(tidy), dtype=object)
    if len(numbers) == len(present):
        # Of two classes -1 and 1 it is one; beside two others it can only mean "none".
        absent = -1 if len(set(numbers)) > 2 and min(numbers) == -1 else None
        out[:] = [None if label == absent else label for label in tidy]
        return out
    words = [label for label in present if not isinstance(label, int)]
    if numbers:
        warnings.warn(
            f"{where} mixes numbers (such as {numbers[0]}) and text (such as "
            f"{clip(repr(words[0]))}): all of them are read as text",
            DataWarning,
            stacklevel=2,
        )
    out[:] = [None if label is None else str(label) for label in tidy]
    return out


def _tidy(value: object) -> int | str | None:
    if is_missing(value):
        return None
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return int(number) if number.is_integer() else repr(number)
    text = str(value).strip()
    return _whole(text) if text else None


def _whole(text: str) -> int | str:
    """`7`, `-1` and `7.0` are whole numbers; `07` is a name, and so are very long numbers."""
    digits = text.removesuffix(".0").removeprefix("-")
    if (
        len(digits) <= DIGITS
        and digits.isascii()
        and digits.isdigit()
        and (digits == "0" or digits[0] != "0")
    ):
        return int(text.removesuffix(".0"))
    return text


def check_classes(labels: Labels, where: str) -> None:
    """An error where there is nothing to compare, a warning where there is little."""
    counts = Counter(label for label in labels if label is not None)
    if not counts:
        raise DataError(f"{where} is empty: no row has a label; label some rows first")
    if len(counts) == 1:
        only = next(iter(counts))
        raise DataError(
            f"{where} holds one class ({clip(repr(only))}, {counts[only]} times); wrong labels "
            "show only against another class: two are needed"
        )
    if max(counts.values()) == 1:
        raise DataError(
            f"{where} holds {len(counts)} labels and no two rows share one: that is not a "
            f"class label; the first are {listed(counts, 3)}"
        )
    once = [str(label) for label, count in counts.items() if count == 1]
    if once:
        warnings.warn(
            f"{where}: {len(once)} class(es) with one row only ({listed(once, 5)}): kept, but a "
            "class of one row cannot be judged reliably; add rows, or merge the class",
            DataWarning,
            stacklevel=2,
        )


def resolve_variants(data: LabelledData, merge: bool) -> LabelledData:
    """Labels that differ only by case or spaces: a warning names them, or they are merged.

    All variants then get the name of the most frequent one. Classes that the data names itself are
    left alone.
    """
    labels = data.labels if data.votes is None else data.votes["label"].to_numpy(dtype=object)
    counts = Counter(label for label in labels if isinstance(label, str))
    groups: dict[str, list[str]] = {}
    for label in sorted(counts, key=lambda name: (-counts[name], name)):
        groups.setdefault("".join(label.split()).casefold(), []).append(label)
    variants = [names for names in groups.values() if len(names) > 1]
    if not variants or data.class_names is not None:
        return data
    if not merge:
        shown = listed(" = ".join(map(repr, names)) for names in variants)
        warnings.warn(
            f"{len(variants)} class(es) are written in ways that differ only by case or spaces "
            f"({shown}): they count as different classes; `merge_variants` makes them one",
            DataWarning,
            stacklevel=3,
        )
        return data
    merged = {other: names[0] for names in variants for other in names}
    changed = np.empty_like(data.labels)
    if data.votes is None:
        changed[:] = [merged.get(label, label) for label in data.labels]
        return replace(data, labels=changed)
    votes = data.votes.assign(label=[merged.get(label, label) for label in data.votes["label"]])
    changed[:] = majority_labels(votes, data.ids)
    return replace(data, labels=changed, votes=votes)


def majority_labels(votes: pd.DataFrame, samples: Iterable[str]) -> list[object]:
    """The label that most votes on each sample are for, the first to occur where they tie."""
    counts: dict[str, Counter[object]] = {}
    for key, vote in zip(votes["sample"], votes["label"], strict=True):
        counts.setdefault(key, Counter())[vote] += 1
    return [counts[key].most_common(1)[0][0] if key in counts else None for key in samples]


def class_names_of(data: LabelledData) -> list[str]:
    """The user's own order, else sorted: whole numbers by value, text by letter."""
    if data.class_names is not None:
        return list(data.class_names)
    return [str(label) for label in sorted({label for label in data.labels if label is not None})]


def encode(labels: Labels, class_names: list[str], where: str) -> Tensor:
    """int64 (N,); -1 where there is no label. An error names the first unknown class."""
    number = {name: row for row, name in enumerate(class_names)}
    codes = torch.full((len(labels),), -1)
    for row, label in enumerate(labels):
        if label is None:
            continue
        if str(label) not in number:
            raise DataError(
                f"{where}: the label {clip(repr(label))} in row {row} (from 0) is not a class "
                f"of the training data ({listed(class_names, 8)}){nearest(str(label), class_names)}"
            )
        codes[row] = number[str(label)]
    return codes


def tidy_ids(values: Iterable[object], where: str) -> list[str]:
    """Convert ids to text; an error names the first empty or repeated id and its rows."""
    ids: list[str] = []
    seen: dict[str, int] = {}
    for row, value in enumerate(values):
        text = cell_text(value).strip()
        if not text:
            raise DataError(f"{where} has no id in row {row} (from 0): fill it in, or leave it out")
        if text in seen:
            raise DataError(
                f"{where} holds the id {clip(repr(text))} twice, in rows {seen[text]} and "
                f"{row} (from 0): ids must be unique"
            )
        seen[text] = row
        ids.append(text)
    return ids


def checked_class_numbers(
    values: Any, records: int, classes: int, path: Path, what: str
) -> npt.NDArray[np.int64]:
    """(records,) within the classes; an error names the first that is not."""
    # Texts of unlike lengths would make an array of the longest times their number.
    if not isinstance(values, np.ndarray) and not (
        isinstance(values, list) and all(type(value) is int for value in values)
    ):
        raise DataError(f"{path}: {what} is not a list of whole numbers")
    with naming(path, f"a file whose {what} are labels", kind=DataError):
        labels = np.asarray(values)
    if labels.shape != (records,) or labels.dtype.kind not in "iu":
        raise DataError(
            f"{path}: {what} is {labels.dtype} {labels.shape}; {records} whole numbers are needed"
        )
    wrong = (labels < 0) | (labels >= classes)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"{path}: {what} of image {row} (from 0) is {labels[row]}; there are {classes} "
            "classes. It is not a file of this data set, or it is damaged"
        )
    return labels.astype(np.int64)
