"""A table with a label column, and texts, image paths or other columns to judge the labels by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from csot._core.errors import DataError, clip, listed, nearest
from csot._core.pictures import ALLOW_OUTSIDE, OUTSIDE, Containment, fault
from csot.data.columns import TableFeatures
from csot.data.columns.kinds import NUMBERS, suspect
from csot.data.columns.parse_cells import cell_text
from csot.data.labels import majority_labels, tidy_ids, tidy_labels
from csot.data.readers.table_file import TableFile
from csot.data.types import LabelledData, Skipped


@dataclass(frozen=True)
class Columns:
    """Which column is what.

    With neither text nor image, the features are the columns that describe a sample; with one of
    them, the columns in `features` are joined with its embedding.
    """

    label: str | None = None
    text: str | None = None
    image: str | None = None
    id: str | None = None
    group: str | None = None
    features: Sequence[str] | None = None
    annotator: str | None = None
    """Column of annotators: a row is then one vote, and a sample may have several rows."""

    @property
    def named(self) -> set[str | None]:
        """Those that are not features."""
        return {self.label, self.id, self.group, self.text, self.image, self.annotator}


@dataclass(frozen=True)
class Reading:
    """How a table is read."""

    root: Path
    """Where image paths start."""
    check: Callable[[Path], str | None] = fault
    """Says what is wrong with an image; it may use a cache to avoid decoding."""
    labelled: bool = True
    """If not, labels may be missing or all the same."""
    allow_outside: bool = False
    """Whether images outside of `root` are read; else their rows are left out."""
    fitted: TableFeatures | None = None
    """How columns become features; else it is learned from the table itself."""


def read_table(path: Path, columns: Columns, reading: Reading) -> LabelledData:
    """The table file as samples."""
    file = TableFile(path)
    columns = settle(columns, file.names, str(path), reading.labelled)
    return from_table(
        file.load(_numeric(columns, file.names, reading)), columns, str(path), reading
    )


def from_table(table: pd.DataFrame, columns: Columns, where: str, reading: Reading) -> LabelledData:
    """The rows as samples. `columns` are settled; `where` names the table in errors."""
    votes = None
    if columns.annotator is not None:
        assert columns.id is not None
        assert columns.label is not None
        votes, table = split_votes(table, columns.id, columns.annotator, columns.label, where)
    labels_of = f"{where}: column {columns.label!r}"
    given = [None] * len(table) if columns.label is None else table[columns.label]
    ids = range(len(table)) if columns.id is None else table[columns.id]
    keys = tidy_ids(ids, where if columns.id is None else f"{where}: column {columns.id!r}")
    table = table.set_axis(pd.Index(keys, dtype=object), axis=0)
    data = LabelledData(
        kind="table",
        root=reading.root,
        ids=keys,
        labels=tidy_labels(given, labels_of),
        table=table,
        label_column=columns.label,
        votes=votes,
    )
    if columns.text is not None:
        data = _with_texts(data, columns.text)
    elif columns.image is not None:
        data = _with_images(data, columns.image, where, reading)
    data = _with_features(data, columns, where, reading.fitted)
    if columns.group is not None:
        groups = [cell_text(cell) or None for cell in table[columns.group].reindex(data.ids)]
        data = replace(data, groups=np.array(groups, dtype=object))
    return data


def _numeric(columns: Columns, names: list[str], reading: Reading) -> set[str]:
    """Columns of a CSV that are read as numbers where they can be; all others stay text."""
    if reading.fitted is not None:
        return {one.name for one in reading.fitted.of_kind(*NUMBERS)}
    if columns.features is None and (columns.text is not None or columns.image is not None):
        return set()
    return {name for name in columns.features or names if suspect(name) is None} - columns.named


def settle(columns: Columns, names: list[str], where: str, labelled: bool) -> Columns:
    """Every name exists; an `id` column is found by its name."""
    if columns.label is None and labelled:
        raise DataError(
            f"{where} is a table: name its label column with `label`; it has {listed(names)}"
        )
    if columns.text is not None and columns.image is not None:
        raise DataError("`text` and `image` are both given: one sample is either, drop one")
    roles = ("label", "text", "image", "id", "group", "annotator")
    asked = [(role, name) for role in roles if (name := getattr(columns, role)) is not None]
    asked += [("features", name) for name in columns.features or ()]
    for parameter, name in asked:
        if name not in names:
            raise DataError(
                f"{where} has no column {name!r} (`{parameter}`); it has {listed(names)}"
                f"{nearest(name, names)}"
            )
    judged_by = {columns.text, columns.image, *(columns.features or ())}
    for role, own in (("label", columns.label), ("annotator", columns.annotator)):
        if own is not None and own in judged_by:
            raise DataError(f"the {role} column {own!r} cannot also be what it is judged by")
    if columns.annotator is not None and columns.annotator in {columns.label, columns.id}:
        raise DataError(f"`annotator` {columns.annotator}: labels and ids need another column")
    if columns.id is None:
        taken = {columns.label, columns.annotator, *(columns.features or ())}
        found = [name for name in names if name.lower() == "id" and name not in taken]
        columns = replace(columns, id=found[0] if found else None)
    if columns.annotator is None:
        return columns
    if columns.label is None:
        raise DataError(f"`annotator` {columns.annotator} needs `label`, the column of the votes")
    # A sample with several rows is identified by its id; without one, by its text or image.
    sample = columns.id or columns.text or columns.image
    if sample is None:
        raise DataError(
            f"{where} has a row per vote (`annotator`): name the column that says which sample a "
            "vote is on with `id`"
        )
    return replace(columns, id=sample)


def _with_features(
    data: LabelledData, columns: Columns, where: str, fitted: TableFeatures | None
) -> LabelledData:
    """Features of the columns, before scaling; of texts and images only if columns are chosen."""
    assert data.table is not None
    medium = columns.text or columns.image
    beside = [] if medium is None else [f"{medium} ({'text' if columns.text else 'image'})"]
    table = data.table.loc[data.ids] if len(data.ids) < len(data.table) else data.table
    encoded = None
    if fitted is None:
        if medium is not None and columns.features is None:
            return replace(data, uses=f"uses {beside[0]}")
        fitted, encoded = TableFeatures.fit_encode(table, columns.features, columns.named, where)
    if not fitted.used:
        raise DataError(
            f"{where} has no column to judge the labels by: it "
            f"{fitted.line().partition('; ')[2] or f'has {listed(data.table.columns)}'}; name "
            "columns with `features`, a text column with `text` or image paths with `image`"
        )
    return replace(
        data,
        features=fitted.encode(table, where) if encoded is None else encoded,
        feature_columns=fitted.names,
        table_features=fitted,
        uses=fitted.line(beside),
    )


def _with_texts(whole: LabelledData, column: str) -> LabelledData:
    assert whole.table is not None
    cells = [cell_text(value) for value in whole.table[column]]
    reasons = [None if cell.strip() else f"empty text in column {column!r}" for cell in cells]
    data = _without(whole, reasons)
    texts = [cell for cell, reason in zip(cells, reasons, strict=True) if reason is None]
    if not texts:
        raise DataError(f"column {column!r} holds no text in any row")
    return replace(data, texts=texts)


def _with_images(whole: LabelledData, column: str, where: str, reading: Reading) -> LabelledData:
    assert whole.table is not None
    cells = [cell_text(value) for value in whole.table[column]]
    paths = [whole.root / cell.strip() for cell in cells]
    allowed = Containment(whole.root, reading.allow_outside)

    def fault_of(cell: str, image: Path) -> str | None:
        if not cell.strip():
            return f"no path in column {column!r}"
        return reading.check(image) if allowed.allows(image) else f"{OUTSIDE}; {ALLOW_OUTSIDE}"

    reasons = [fault_of(cell, image) for cell, image in zip(cells, paths, strict=True)]
    if all(reason is not None for reason in reasons):
        raise DataError(
            f"{where}: no image of column {column!r} can be read; the first is "
            f"{clip(str(paths[0]), 300)} ({reasons[0]}); say where the paths start with `root`"
        )
    kept = [image for image, reason in zip(paths, reasons, strict=True) if reason is None]
    return replace(_without(whole, reasons), images=kept)


def _without(whole: LabelledData, reasons: Sequence[str | None]) -> LabelledData:
    """The samples without a reason against them; the others are listed."""
    keep = np.array([reason is None for reason in reasons], dtype=bool)
    pairs = list(zip(whole.ids, reasons, strict=True))
    return replace(
        whole,
        ids=[key for key, reason in pairs if reason is None],
        labels=whole.labels[keep],
        skipped=[Skipped(key, reason) for key, reason in pairs if reason is not None],
    )


def split_votes(
    table: pd.DataFrame, sample: str, annotator: str, label: str, where: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table with a row per vote -> the votes (sample, annotator, label), and a row per sample.

    The row of a sample is its first one, with the majority label (the first to occur where votes
    tie) and without the column of annotators. A row without a label is not a vote.
    """
    ids = [cell_text(value).strip() for value in table[sample]]
    names = [cell_text(value).strip() for value in table[annotator]]
    labels = tidy_labels(table[label], f"{where}: column {label!r}")
    for what, cells in (("id", ids), ("annotator", names)):
        if "" in cells:
            raise DataError(f"{where} has no {what} in row {cells.index('')} (from 0): fill it in")
    long = pd.DataFrame({"sample": ids, "annotator": names, "label": labels}, dtype=object)
    votes = long[long["label"].notna()].reset_index(drop=True)
    first = ~long["sample"].duplicated().to_numpy()
    samples = table[first].drop(columns=annotator).reset_index(drop=True)
    samples[label] = pd.Series(majority_labels(votes, long["sample"][first]), dtype=object)
    return votes, samples
