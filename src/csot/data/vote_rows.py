"""A table with a row per vote -> the votes, and a row per sample."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd

from csot.data.cells import cell_text
from csot.data.errors import DataError
from csot.data.labels import tidy_labels


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
