"""Decisions of a person, fed back: a CSV with the columns `id` and `label`.

The sheet of an audit has `verified_label` instead, empty where nobody could say.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from csot.data.cells import cell_text
from csot.data.errors import DataError, DataWarning, listed, nearest
from csot.data.labelled import LabelledData, Labels
from csot.data.table_file import column_names, load_table
from csot.untrusted.errors import clip

COLUMNS = ("label", "verified_label")
"""Where the decisions are: the first that there is."""


def read_verified(path: Path, data: LabelledData) -> Labels:
    """The verified label of each sample, (N,); None where there is none.

    Rows without a label are no decision. An id that `data` skipped or does not know is reported.
    """
    names = column_names(path) if path.exists() else []
    column = next((name for name in COLUMNS if name in names), COLUMNS[0])
    table = load_fed_back(path, ("id", column), "--verified")
    known = known_labels(data)
    decided: dict[str, object] = {}
    for key, label in zip(table["id"].astype(str), table[column], strict=True):
        text = cell_text(label).strip()
        if not text:
            continue
        if text not in known:
            raise DataError(
                f"{path}: the verified label {clip(repr(text))} of id {clip(repr(key))} is "
                f"not a class of the data ({listed(sorted(known), 8)}){nearest(text, known)}"
            )
        if decided.setdefault(key.strip(), known[text]) != known[text]:
            raise DataError(
                f"{path}: id {clip(repr(key))} has two verified labels, "
                f"{clip(repr(decided[key.strip()]))} and {clip(repr(text))}: keep one"
            )
    report_unknown(path, decided, data, "verified ids")
    verified = np.empty(len(data), dtype=object)
    verified[:] = [decided.get(key) for key in data.ids]
    return verified


def load_fed_back(path: Path, wanted: Iterable[str], option: str) -> pd.DataFrame:
    """A table that the user feeds back, every cell as text; it has the ``wanted`` columns."""
    if not path.exists():
        raise DataError(f"{path} does not exist ({option})")
    names = column_names(path)
    for name in wanted:
        if name not in names:
            raise DataError(
                f"{path} has no column {name!r} ({option}); it has {listed(names)}"
                f"{nearest(name, names)}"
            )
    return load_table(path, numeric=())


def known_labels(data: LabelledData) -> dict[str, object]:
    """Every class of the data by its text."""
    labels = data.labels if data.votes is None else data.votes["label"]
    known = {str(label): label for label in labels if label is not None}
    return known | {name: name for name in data.class_names or ()}


def report_unknown(path: Path, decided: Collection[str], data: LabelledData, what: str) -> None:
    """Warn of ids that the data does not have; an error where it has none of them."""
    known = {*data.ids, *(skipped.id for skipped in data.skipped)}
    unknown = [key for key in decided if key not in known]
    if not unknown:
        return
    example = f"first {clip(repr(unknown[0]))}, where the data has ids such as {data.ids[0]!r}"
    if len(unknown) == len(decided):
        raise DataError(f"{path}: none of its {len(decided)} ids is in the data; {example}")
    warnings.warn(
        f"{path}: {len(unknown)} of {len(decided)} {what} are not in the data; {example}",
        DataWarning,
        stacklevel=3,
    )
