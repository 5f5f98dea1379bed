"""Labels for new data by the cleaner of a run: features prepared as in the run, then `predict`."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from csot._core.pictures import fault
from csot.clean.judging import Judge
from csot.data import Columns, read_data
from csot.data.readers.table_file import TableFile, is_table
from csot.embed.preparation import Progress, features_of, plan_embedding
from csot.runs.predictions import Predicted


def predict_with_cleaner(
    run: str | Path,
    data: str | Path,
    *,
    columns: Columns | None = None,
    root: Path | None = None,
    allow_outside: bool = False,
    embedder: str | None = None,
    progress: Progress | None = None,
) -> Predicted:
    """Predict the labels of data with the classifier that a cleaning run learned.

    Parameters
    ----------
    run : path
        Folder that `csot.clean_dataset` wrote.
    data : path
        Images, a table or arrays of the same kind as those of the run, with or without labels.
    columns, root : optional
        Columns of a table, by default those of the run; and where its image paths start.
    allow_outside : bool
        Read images that lie outside of the data folder.
    embedder : str, optional
        Of a run with an embedder ``package.module:callable``: that name, if you trust it.
    progress : callable, optional
        Called with the name of a stage, how much of it is done, and how much there is.
    """
    return predict_with_judge(
        Judge.open(Path(run), embedder),
        Path(data),
        columns=columns,
        root=root,
        allow_outside=allow_outside,
        progress=progress,
    )


def predict_with_judge(
    judge: Judge,
    data: Path | pd.DataFrame,
    *,
    columns: Columns | None = None,
    root: Path | None = None,
    allow_outside: bool = False,
    progress: Progress | None = None,
) -> Predicted:
    """`predict_with_cleaner` for a run that is open already, and also for a table in memory."""
    path = None if isinstance(data, pd.DataFrame) else data
    asked = columns or Columns()
    chosen, embedder = judge.align(path, asked)
    chosen = without_missing(chosen, asked, data)
    # What is embedded here must not replace the embeddings that the run keeps of its own data.
    with tempfile.TemporaryDirectory(prefix="csot-") as folder:
        planned = plan_embedding(path, Path(folder), chosen, root, embedder)
        found = read_data(
            data, chosen, root, fault, False, allow_outside, fitted=judge.inputs.table
        )
        judge.check(found, planned)
        features, _ = features_of(found, planned, progress, judge.inputs)
    names = [str(name) for name in judge.cleaner.classes_]
    probabilities = np.asarray(judge.cleaner.predict_proba(features), dtype=np.float32)
    best = np.array(names, dtype=object)[probabilities.argmax(1)]
    known = np.array([label is not None and str(label) in names for label in found.labels])
    given = np.array([str(label) for label in found.labels], dtype=object)
    accuracy = float((best == given)[known].mean()) if known.any() else None
    return Predicted(found.ids, names, probabilities, accuracy=accuracy)


def without_missing(chosen: Columns, asked: Columns, data: Path | pd.DataFrame) -> Columns:
    """Drop the run's own columns of labels and ids where the table has none: it needs neither."""
    if isinstance(data, pd.DataFrame):
        names = {str(name) for name in data.columns}
    elif data.is_file() and is_table(data):
        names = set(TableFile(data).names)
    else:
        return chosen
    absent = {
        name: None
        for name in ("label", "id")
        if getattr(asked, name) is None and getattr(chosen, name) not in names
    }
    return replace(chosen, **absent)
