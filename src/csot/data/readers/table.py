"""A CSV or Parquet table with a label column, and text, image paths or numbers beside it."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from csot._core.errors import DataError, DataWarning, clip, listed, nearest
from csot._core.pictures import ALLOW_OUTSIDE, OUTSIDE, Containment, fault
from csot._core.text import cell_text
from csot.data.labels import check_classes, tidy_ids, tidy_labels
from csot.data.readers.arrays import check_matrix
from csot.data.readers.table_file import column_names, load_table
from csot.data.types import LabelledData, Matrix, Skipped


@dataclass(frozen=True)
class Columns:
    """Which column is what. With neither text nor image, the features are numeric columns."""

    label: str | None = None
    text: str | None = None
    image: str | None = None
    id: str | None = None
    group: str | None = None
    features: Sequence[str] | None = None
    annotator: str | None = None
    """With it, a row is one annotator's vote, and a sample may have several rows."""


def read_table(
    path: Path,
    columns: Columns,
    root: Path | None = None,
    check: Callable[[Path], str | None] = fault,
    labelled: bool = True,
    allow_outside: bool = False,
) -> LabelledData:
    """The table as samples. Image paths start from `root`, else from the table's own folder.

    A row whose image lies outside of that folder is left out, unless `allow_outside` is given.

    Unless it has to be `labelled`, the label column may be left out; then every label is None.
    """
    names = column_names(path)
    columns = _settle(columns, names, path, labelled)
    named = {columns.label, columns.id, columns.group, columns.text, columns.image}
    named |= {columns.annotator}
    numeric: set[str] = set()
    if columns.text is None and columns.image is None:
        numeric = set(columns.features or names) - named
    table = load_table(path, numeric)
    votes = None
    if columns.annotator is not None:
        assert columns.id is not None
        assert columns.label is not None
        votes, table = split_votes(table, columns.id, columns.annotator, columns.label, path)
    where = f"{path}: column {columns.label!r}"
    given = [None] * len(table) if columns.label is None else table[columns.label]
    labels = tidy_labels(given, where)
    ids = range(len(table)) if columns.id is None else table[columns.id]
    keys = tidy_ids(ids, str(path) if columns.id is None else f"{path}: column {columns.id!r}")
    table.index = pd.Index(keys, dtype=object)
    whole = LabelledData(
        kind="table",
        root=(root or path.parent),
        ids=keys,
        labels=labels,
        table=table,
        label_column=columns.label,
        votes=votes,
    )
    if columns.text is not None:
        data = _with_texts(whole, columns.text)
    elif columns.image is not None:
        allowed = Containment(whole.root, allow_outside)
        data = _with_images(whole, columns.image, path, check, allowed)
    else:
        if columns.features is None:
            columns = replace(columns, features=_numeric_columns(table, named, path))
        chosen = list(columns.features or ())
        features = _matrix(table, chosen, path)
        data = replace(whole, features=features, feature_columns=chosen)
    if columns.group is not None:
        groups = [cell_text(cell) or None for cell in table[columns.group].reindex(data.ids)]
        data = replace(data, groups=np.array(groups, dtype=object))
    if labelled:
        check_classes(data.labels if votes is None else votes["label"].to_numpy(), where)
    return data


def _settle(columns: Columns, names: list[str], path: Path, labelled: bool) -> Columns:
    """Every name exists; an `id` column is found by its name."""
    if columns.label is None and labelled:
        raise DataError(
            f"{path} is a table: name its label column with --label; it has {listed(names)}"
        )
    if columns.text is not None and columns.image is not None:
        raise DataError("--text and --image are both given: one sample is either, drop one")
    given = {
        "--label": columns.label,
        "--text": columns.text,
        "--image": columns.image,
        "--id": columns.id,
        "--group": columns.group,
        "--annotator": columns.annotator,
    }
    asked = [(option, name) for option, name in given.items() if name is not None]
    asked += [("--features", name) for name in columns.features or ()]
    for option, name in asked:
        if name not in names:
            raise DataError(
                f"{path} has no column {name!r} ({option}); it has {listed(names)}"
                f"{nearest(name, names)}"
            )
    judged_by = {columns.text, columns.image, *(columns.features or ())}
    for role, own in (("label", columns.label), ("annotator", columns.annotator)):
        if own is not None and own in judged_by:
            raise DataError(f"the {role} column {own!r} cannot also be what it is judged by")
    if columns.annotator is not None and columns.annotator in {columns.label, columns.id}:
        raise DataError(f"--annotator {columns.annotator}: labels and ids need another column")
    if columns.id is None:
        taken = (columns.label, columns.annotator)
        found = [name for name in names if name.lower() == "id" and name not in taken]
        columns = replace(columns, id=found[0] if found else None)
    if columns.annotator is None:
        return columns
    if columns.label is None:
        raise DataError(f"--annotator {columns.annotator} needs --label, the column of the votes")
    # A sample with several rows is told by its id; without one, by its text or image.
    sample = columns.id or columns.text or columns.image
    if sample is None:
        raise DataError(
            f"{path} has a row per vote (--annotator): name the column that says which sample a "
            "vote is on with --id"
        )
    return replace(columns, id=sample)


def _numeric_columns(table: pd.DataFrame, named: set[str | None], path: Path) -> list[str]:
    """All columns of numbers; one that is mostly numbers is an error, not silently left out."""
    found = []
    for name in table.columns:
        column = table[name]
        if name in named:
            continue
        if name.startswith("Unnamed:"):
            warnings.warn(
                f"{path}: the column without a name looks like row numbers and is left out; name "
                "it in --features to use it",
                DataWarning,
                stacklevel=3,
            )
        elif pd.api.types.is_numeric_dtype(column.dtype) or _mostly_numbers(column):
            found.append(name)
    if not found:
        raise DataError(
            f"{path} has no numeric column to judge the labels by; it has {listed(table.columns)}; "
            "name a text column with --text or image paths with --image"
        )
    return found


def _mostly_numbers(column: pd.Series) -> bool:
    return bool(pd.to_numeric(column, errors="coerce").notna().mean() > 0.5)


def _matrix(table: pd.DataFrame, names: list[str], path: Path) -> Matrix:
    """(N, D) float64; an error names the first cell that is no number."""
    for name in names:
        column = table[name]
        numbers = pd.to_numeric(column, errors="coerce")
        if bool(numbers.isna().any()):
            row = int(np.flatnonzero(numbers.isna())[0])
            cell = column.iloc[row]
            shown = repr(cell) if isinstance(cell, str) else str(cell)
            raise DataError(
                f"{path}: column {name!r} holds {clip(shown)} in row {row} (from 0), which "
                "is no number; fill it in, drop the row, or choose columns with --features"
            )
    values = table[names].apply(pd.to_numeric).to_numpy(dtype=np.float64)
    return check_matrix(values, f"{path}: features", names)


def _with_texts(whole: LabelledData, column: str) -> LabelledData:
    assert whole.table is not None
    cells = [cell_text(value) for value in whole.table[column]]
    reasons = [None if cell.strip() else f"empty text in column {column!r}" for cell in cells]
    data = _without(whole, reasons)
    texts = [cell for cell, reason in zip(cells, reasons, strict=True) if reason is None]
    if not texts:
        raise DataError(f"column {column!r} holds no text in any row")
    return replace(data, texts=texts)


def _with_images(
    whole: LabelledData,
    column: str,
    path: Path,
    check: Callable[[Path], str | None],
    allowed: Containment,
) -> LabelledData:
    assert whole.table is not None
    cells = [cell_text(value) for value in whole.table[column]]
    paths = [whole.root / cell.strip() for cell in cells]

    def fault_of(cell: str, image: Path) -> str | None:
        if not cell.strip():
            return f"no path in column {column!r}"
        return check(image) if allowed.allows(image) else f"{OUTSIDE}; {ALLOW_OUTSIDE}"

    reasons = [fault_of(cell, image) for cell, image in zip(cells, paths, strict=True)]
    if all(reason is not None for reason in reasons):
        raise DataError(
            f"{path}: no image of column {column!r} can be read; the first is "
            f"{clip(str(paths[0]), 300)} ({reasons[0]}); say where the paths start with --root"
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


# A table with a row per vote -> the votes, and a row per sample.


def split_votes(
    table: pd.DataFrame, sample: str, annotator: str, label: str, path: Path
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The votes (sample, annotator, label), from these columns; and the first row of each sample.

    There the label is that of the majority, the first one to occur where votes tie, and the column
    of the annotators is left out. A row without a label is no vote.
    """
    ids = [cell_text(value).strip() for value in table[sample]]
    names = [cell_text(value).strip() for value in table[annotator]]
    labels = tidy_labels(table[label], f"{path}: column {label!r}")
    for what, cells in (("id", ids), ("annotator", names)):
        if "" in cells:
            raise DataError(f"{path} has no {what} in row {cells.index('')} (from 0): fill it in")
    long = pd.DataFrame({"sample": ids, "annotator": names, "label": labels}, dtype=object)
    votes = long[long["label"].notna()].reset_index(drop=True)
    counts: dict[str, Counter[object]] = {}
    for key, vote in zip(votes["sample"], votes["label"], strict=True):
        counts.setdefault(key, Counter())[vote] += 1
    first = ~long["sample"].duplicated().to_numpy()
    samples = table[first].drop(columns=annotator).reset_index(drop=True)
    majority = [
        counts[key].most_common(1)[0][0] if key in counts else None for key in long["sample"][first]
    ]
    samples[label] = pd.Series(majority, dtype=object)
    return votes, samples
