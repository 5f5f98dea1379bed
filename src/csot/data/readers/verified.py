"""Human decisions read back: verified labels and votes, as CSV or from Label Studio."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from csot._core import label_studio
from csot._core.errors import DataError, DataWarning, clip, listed, nearest
from csot.data.columns.parse_cells import cell_text
from csot.data.readers.table_file import TableFile
from csot.data.types import LabelledData, Labels

COLUMNS = ("label", "verified_label")
"""Columns that may hold the decisions; the first one present is used. The sheet of an audit has the
second, empty where the label is unknown."""
GIVEN = "given"
"""The annotator who gave the labels of the data itself."""


FilesLike = str | Path | Sequence[str | Path]
"""One file, or several."""


def as_paths(files: FilesLike | None) -> tuple[Path, ...]:
    """The files in order, each once; none for None."""
    if files is None:
        return ()
    several = (files,) if isinstance(files, str | Path) else files
    return tuple(dict.fromkeys(Path(file) for file in several))


def read_verified(files: FilesLike, data: LabelledData) -> Labels:
    """The verified label of each sample, (N,); None where there is none.

    A file is a CSV with the columns `id` and `label`, or an export of Label Studio.
    Rows without a label are not decisions. An id that `data` skipped or does not know is reported.
    Several files are merged; they must not contradict each other.
    """
    merged: dict[str, object] = {}
    source: dict[str, Path] = {}
    for path in as_paths(files):
        for key, label in _decisions_of(path, data).items():
            if merged.setdefault(key, label) != label:
                raise DataError(
                    f"id {clip(repr(key))} has two verified labels: {clip(repr(merged[key]))} in "
                    f"{source[key]} and {clip(repr(label))} in {path} (`verified`): keep one, or "
                    "give the opinions of several annotators as `votes`"
                )
            source.setdefault(key, path)
    verified = np.empty(len(data), dtype=object)
    verified[:] = [merged.get(key) for key in data.ids]
    return verified


def _decisions_of(path: Path, data: LabelledData) -> dict[str, object]:
    """Classes of the data by id, of one file."""
    known = known_labels(data)
    decided: dict[str, object] = {}
    for key, text in _read_decisions(path):
        if text not in known:
            raise DataError(
                f"{path}: the verified label {clip(repr(text))} of id {clip(repr(key))} is "
                f"not a class of the data ({listed(sorted(known), 8)}){nearest(text, known)}"
            )
        if decided.setdefault(key.strip(), known[text]) != known[text]:
            raise DataError(
                f"{path}: id {clip(repr(key))} has two verified labels, "
                f"{clip(repr(decided[key.strip()]))} and {clip(repr(text))}: keep one, or give the "
                "opinions of several annotators as `votes`"
            )
    report_unknown(path, decided, data, "verified ids")
    return decided


def _read_decisions(path: Path) -> list[tuple[str, str]]:
    """Ids and labels; rows without a label are left out."""
    found = read_annotations(path, "verified")
    if found is not None:
        return [(one.sample, one.label.strip()) for one in found]
    file = open_fed_back(path, "verified")
    column = next((name for name in COLUMNS if name in file.names), COLUMNS[0])
    table = load_fed_back(file, ("id", column), "verified")
    labels = (cell_text(label).strip() for label in table[column])
    return [(key, text) for key, text in zip(table["id"].astype(str), labels, strict=True) if text]


def read_annotations(path: Path, parameter: str) -> list[label_studio.Annotation] | None:
    """What an export of Label Studio says, as JSON, JSON-MIN, CSV or TSV; None for another file."""
    if path.suffix.lower() == label_studio.SUFFIX and path.exists():
        found = label_studio.read_export(path)
        if not found:
            raise DataError(
                f"{path} holds no annotation (`{parameter}`): submit some, by choices with "
                f'name="{label_studio.CONTROL}", and export'
            )
        return found
    file = open_fed_back(path, parameter)
    if not {label_studio.SAMPLE_ID, label_studio.ANNOTATION_ID} <= set(file.names):
        return None
    wanted = (label_studio.SAMPLE_ID, label_studio.CONTROL, "annotator")
    table = load_fed_back(file, wanted, parameter)
    cells = zip(*(table[name].map(cell_text) for name in wanted), strict=True)
    return [
        label_studio.Annotation(sample, who, label) for sample, label, who in cells if label.strip()
    ]


def open_fed_back(path: Path, parameter: str) -> TableFile:
    """A table that the user feeds back."""
    if not path.exists():
        raise DataError(f"{path} does not exist (`{parameter}`)")
    return TableFile(path)


def load_fed_back(file: TableFile, wanted: Iterable[str], parameter: str) -> pd.DataFrame:
    """Its rows, every cell as text; it has the `wanted` columns."""
    for name in wanted:
        if name not in file.names:
            raise DataError(
                f"{file.path} has no column {name!r} (`{parameter}`); it has {listed(file.names)}"
                f"{nearest(name, file.names)}"
            )
    return file.load()


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
        stacklevel=4,
    )


def all_votes(data: LabelledData, path: Path | None) -> pd.DataFrame | None:
    """Votes (sample, annotator, label) of the data and of the file; None where there is neither.

    The file is a CSV with the columns `id`, `annotator` and `label`, or an export of Label Studio.
    Where the data has one label per sample, that is the vote of the annotator `given`.
    """
    if path is None and data.votes is None:
        return None
    own = data.votes
    if own is None:
        own = pd.DataFrame(
            {"sample": data.ids, "annotator": GIVEN, "label": data.labels}, dtype=object
        )
    votes = own if path is None else pd.concat([own, _read_votes(path, data)])
    wanted = votes["sample"].isin(set(data.ids)) & votes["label"].notna()
    return votes[wanted].reset_index(drop=True)


def _read_votes(path: Path, data: LabelledData) -> pd.DataFrame:
    """Rows without a label are not votes; ids that the data does not have are reported."""
    columns = ("id", "annotator", "label")
    exported = read_annotations(path, "votes")
    if exported is None:
        table = load_fed_back(open_fed_back(path, "votes"), columns, "votes")
    else:
        rows = [(one.sample, one.annotator, one.label) for one in exported]
        table = pd.DataFrame(rows, columns=columns, dtype=object)
    known = known_labels(data)
    found: dict[str, list[object]] = {"sample": [], "annotator": [], "label": []}
    for row, (key, name, label) in enumerate(
        zip(table["id"], table["annotator"], table["label"], strict=True)
    ):
        text, who = cell_text(label).strip(), cell_text(name).strip()
        if not text:
            continue
        if text not in known:
            raise DataError(
                f"{path}: the vote {text!r} in row {row} (from 0) is not a class of the data "
                f"({listed(sorted(known), 8)}){nearest(text, known)}"
            )
        if not who or (who == GIVEN and data.votes is None):
            remedy = f"{GIVEN!r} stands for the labels of the data" if who else "fill it in"
            raise DataError(f"{path}: annotator {who!r} in row {row} (from 0): {remedy}")
        found["sample"].append(cell_text(key).strip())
        found["annotator"].append(who)
        found["label"].append(known[text])
    if not found["label"]:
        raise DataError(f"{path} holds no vote (`votes`): every label is empty")
    ids = [str(key) for key in dict.fromkeys(found["sample"])]
    report_unknown(path, ids, data, "ids with votes")
    return pd.DataFrame(found, dtype=object)
