"""True labels by id, where they are known: of a training run on added noise, or the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot._core.errors import FileError, listed
from csot._core.text import is_unicode
from csot.runs.findings import CORRECTED, GIVEN, ID, PREDICTED
from csot.runs.run import TRUTH, Run
from csot.runs.tables import read_text_csv, text_column, to_text, write_csv

TRUE = "true_label"
COLUMNS = (TRUE, "label")
"""Columns that may hold the true labels; the first one present is used."""


def write_truth(run: Run, ids: pd.Index[Any], labels: list[Any]) -> Path:
    """true_labels.csv: for measures and figures only, empty where a label is not known."""
    kind = run.label_kind
    table = pd.DataFrame(
        {ID: text_column(ids, run.id_kind).to_numpy(), TRUE: text_column(labels, kind).to_numpy()}
    )
    write_csv(run.path / TRUTH, table)
    return run.path / TRUTH


def read_truth(path: Path) -> dict[str, str]:
    """True labels by id, both as text; of an id without a label nothing is said."""
    table = read_text_csv(path)
    column = next((name for name in COLUMNS if name in table), None)
    if ID not in table or column is None:
        raise FileError(f"{path} needs the columns {ID} and {TRUE}, it has {listed(table.columns)}")
    keys, labels = table[ID].tolist(), table[column].tolist()
    for text in (*keys, *labels):
        if not is_unicode(text):
            raise FileError(f"{path} holds {text!r}, which is not UTF-8: save it as UTF-8")
    return {key: label for key, label in zip(keys, labels, strict=True) if label != ""}


def judged_labels(run: Run, truth: Mapping[Any, Any] | str | Path | None = None) -> pd.DataFrame:
    """The findings of the rows whose true label is known, with a column `true_label`.

    `truth` is a file, or a mapping from ids to labels; by default true_labels.csv of the run.
    Labels are text, and empty where none was given.
    """
    findings = run.read_findings()
    id_kind, label_kind = run.id_kind, run.label_kind
    if truth is None and not (run.path / TRUTH).exists():
        raise FileError(
            f"{run.path} does not know the true labels: give them as `truth`, a CSV file with the "
            f"columns {ID} and {TRUE}"
        )
    truth = Path(truth) if isinstance(truth, str) else truth
    if truth is None or isinstance(truth, Path):
        known = read_truth(run.path / TRUTH if truth is None else truth)
    else:
        known = {to_text(key, id_kind): to_text(label, label_kind) for key, label in truth.items()}
    ids = text_column(findings.index, id_kind)
    for name in (GIVEN, PREDICTED, CORRECTED):
        findings[name] = text_column(findings[name], label_kind).to_numpy()
    findings.index = pd.Index(ids, name=ID)
    findings[TRUE] = [known.get(key, "") for key in ids]
    found = findings[findings[TRUE] != ""]
    if found.empty:
        where = truth if isinstance(truth, Path) else "`truth`"
        raise FileError(
            f"{where} has no id of {run.path}: ids there are such as {listed(ids[:3].tolist())}"
        )
    return found


def class_codes(labels: pd.Series[Any], names: list[str]) -> npt.NDArray[np.int64]:
    """Numbers of the classes, -1 for what is none of them."""
    places = {name: number for number, name in enumerate(names)}
    return np.array([places.get(label, -1) for label in labels], dtype=np.int64)
