"""Votes fed back beside the data: a CSV with the columns `id`, `annotator` and `label`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from csot.data.cells import cell_text
from csot.data.errors import DataError, listed, nearest
from csot.data.labelled import LabelledData
from csot.data.verified import known_labels, load_fed_back, report_unknown

GIVEN = "given"
"""The annotator who gave the labels of the data itself."""


def all_votes(data: LabelledData, path: Path | None) -> pd.DataFrame | None:
    """Votes (sample, annotator, label) of the data and of the file; None where there is neither.

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
    """Rows without a label are no votes; ids that the data does not have are reported."""
    table = load_fed_back(path, ("id", "annotator", "label"), "--votes")
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
                f"{path}: the vote {text!r} in row {row} (from 0) is no class of the data "
                f"({listed(sorted(known), 8)}){nearest(text, known)}"
            )
        if not who or (who == GIVEN and data.votes is None):
            remedy = f"{GIVEN!r} stands for the labels of the data" if who else "fill it in"
            raise DataError(f"{path}: annotator {who!r} in row {row} (from 0): {remedy}")
        found["sample"].append(cell_text(key).strip())
        found["annotator"].append(who)
        found["label"].append(known[text])
    if not found["label"]:
        raise DataError(f"{path} holds no vote (--votes): every label is empty")
    ids = [str(key) for key in dict.fromkeys(found["sample"])]
    report_unknown(path, ids, data, "ids with votes")
    return pd.DataFrame(found, dtype=object)
