"""Labels for new data by the cleaner of a run: features prepared as in the run, then `predict`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from csot._core.pictures import fault
from csot.clean.judging import Judge
from csot.clean.preparation import Progress, features_of, plan_embedding
from csot.data import Columns, read_data
from csot.runs.predictions import Predicted


def predict_with_cleaner(
    run: str | Path,
    data: str | Path,
    *,
    columns: Columns | None = None,
    root: Path | None = None,
    allow_outside: bool = False,
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
    progress : callable, optional
        Called with the name of a stage, how much of it is done, and how much there is.
    """
    judge, path = Judge.open(Path(run)), Path(data)
    chosen, embedder = judge.align(path, columns or Columns(), None)
    # What is embedded here must not replace the embeddings that the run keeps of its own data.
    with tempfile.TemporaryDirectory(prefix="csot-") as folder:
        planned = plan_embedding(path, Path(folder), chosen, root, embedder)
        found = read_data(
            path, chosen, root, fault, False, allow_outside, fitted=judge.inputs.table
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
