"""Decisions of a person, fed back: a CSV with the columns `id` and `label`."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from csot.data.cells import cell_text
from csot.data.errors import DataError, DataWarning, listed, nearest
from csot.data.labelled import LabelledData, Labels
from csot.data.table_file import column_names, load_table
from csot.untrusted.errors import clip


def read_verified(path: Path, data: LabelledData) -> Labels:
    """The verified label of each sample, (N,); None where there is none.

    Rows without a label are no decision. An id that `data` skipped or does not know is reported.
    """
    if not path.exists():
        raise DataError(f"{path} does not exist (--verified)")
    names = column_names(path)
    for name in ("id", "label"):
        if name not in names:
            raise DataError(
                f"{path} has no column {name!r} (--verified); it has {listed(names)}"
                f"{nearest(name, names)}"
            )
    table = load_table(path, numeric=())
    known = {str(label): label for label in data.labels if label is not None}
    known |= {name: name for name in data.class_names or ()}
    decided: dict[str, object] = {}
    for key, label in zip(table["id"].astype(str), table["label"], strict=True):
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
    _report_unknown(path, decided, data)
    verified = np.empty(len(data), dtype=object)
    verified[:] = [decided.get(key) for key in data.ids]
    return verified


def _report_unknown(path: Path, decided: dict[str, object], data: LabelledData) -> None:
    known = {*data.ids, *(skipped.id for skipped in data.skipped)}
    unknown = [key for key in decided if key not in known]
    if not unknown:
        return
    example = f"first {clip(repr(unknown[0]))}, where the data has ids such as {data.ids[0]!r}"
    if len(unknown) == len(decided):
        raise DataError(f"{path}: none of its {len(decided)} ids is in the data; {example}")
    warnings.warn(
        f"{path}: {len(unknown)} of {len(decided)} verified ids are not in the data; {example}",
        DataWarning,
        stacklevel=3,
    )
