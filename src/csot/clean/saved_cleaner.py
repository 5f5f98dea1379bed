"""A finished run applied to other data: its cleaner judges labels, or predicts them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from csot._core.errors import listed
from csot._core.pictures import fault
from csot.clean.cleaner import LabelCleaner
from csot.data import Columns, DataError, LabelledData, read_data, read_verified
from csot.data.labels import encode
from csot.data.readers.table_file import TableFile, is_table
from csot.data.types import Labels
from csot.embed.embedder import confirmed_embedder
from csot.embed.preparation import (
    PlannedEmbedding,
    Preparation,
    Progress,
    features_of,
    medium_of,
    plan_embedding,
)
from csot.runs import Run
from csot.runs.predicted import Predicted

DESCRIPTIONS = {
    "images": "images",
    "texts": "texts",
    "columns": "columns of a table",
    "arrays": "arrays of features",
}


@dataclass(frozen=True)
class SavedCleaner:
    """What `judge_with` needs of a run."""

    run: Path
    cleaner: LabelCleaner
    inputs: Preparation
    settings: dict[str, Any]
    embedder: str | None = None
    """Name given by the user, for `confirmed_embedder`."""

    @staticmethod
    def open(path: Path, embedder: str | None = None) -> SavedCleaner:
        """Load the cleaner; an error says why the run has none."""
        run = Run.open(path)
        summary = run.read_summary()
        if summary.get("judged_with"):
            raise DataError(
                f"{path} has no cleaner of its own, it was judged with another run: "
                f"`judge_with` {summary['judged_with']}"
            )
        if "n_annotators" in summary:
            raise DataError(
                f"{path} weighed the votes of several annotators; `judge_with` needs a run on data "
                "with one label per sample"
            )
        if not run.cleaner_path.exists():
            raise DataError(
                f"{path} has no {run.cleaner_path.name}: an older csot made it; run its "
                "csot clean again"
            )
        try:
            inputs = Preparation.from_dict(summary["inputs"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"the summary of {path} does not say how its samples became features; run its "
                "csot clean again"
            ) from error
        settings = summary.get("settings")
        return SavedCleaner(
            path,
            LabelCleaner.load(run.cleaner_path),
            inputs,
            settings if isinstance(settings, dict) else {},
            embedder,
        )

    def align(
        self, data: Path | None, columns: Columns, embedder: str | None = None
    ) -> tuple[Columns, str | None]:
        """The columns and the embedder of the run; other ones are refused.

        `data` is None for a table in memory.
        """
        embedder = embedder or self.embedder
        if data is not None and not data.exists():
            return columns, embedder
        if medium_of(data, Columns()) == "columns":
            columns = self._columns(columns)
        medium = medium_of(data, columns)
        self.check_medium(medium, str(data or "the data"))
        if embedder is not None and medium not in ("images", "texts"):
            raise DataError(f"`embedder` {embedder}: {self.run} used none; leave it out")
        asked, table = columns.features, self.inputs.table
        known = [] if table is None else table.names
        if asked is not None and set(asked) != set(known):
            raise DataError(
                f"`features` {','.join(asked)}: {self.run} judges by {listed(known) or 'none'}; "
                "leave `features` out"
            )
        return columns, confirmed_embedder(self.run, self.inputs.embedder, embedder)

    def check_medium(self, medium: str, name: str) -> None:
        """Refuse images where the run judges texts, and the like."""
        if medium != self.inputs.medium:
            raise DataError(
                f"{name} holds {DESCRIPTIONS[medium]}, but {self.run} judges "
                f"{DESCRIPTIONS[self.inputs.medium]}"
            )

    def _columns(self, given: Columns) -> Columns:
        """Fill in names that were not given from the run."""
        names = {name: getattr(given, name) or self.settings.get(name) for name in ("label", "id")}
        for name, other in (("text", "image"), ("image", "text")):
            if getattr(given, other) is None:
                names[name] = getattr(given, name) or self.settings.get(name)
        return replace(given, **names)

    def check(self, data: LabelledData, planned: PlannedEmbedding | None) -> None:
        """Refuse another embedder than that of the run, or another number of features."""
        wanted = self.cleaner.n_features_in_
        if planned is None and data.features is not None and data.features.shape[1] != wanted:
            raise DataError(
                f"the data has {data.features.shape[1]} features per row, but {self.run} was "
                f"fitted to {wanted}"
            )
        if planned is None:
            return
        embedder = planned.embedder
        if embedder.name != self.inputs.embedder:
            raise DataError(
                f"`embedder` {embedder.name}: {self.run} used {self.inputs.embedder}, and features "
                "of another model cannot be judged by it; leave `embedder` out"
            )
        if embedder.version != self.inputs.embedder_version:
            raise DataError(
                f"the embedder {embedder.name} has changed since {self.run} was made (other "
                "weights, preparation or code); run its csot clean again"
            )

    def with_labels(self, data: LabelledData, where: str) -> LabelledData:
        """The data, its labels as classes of the cleaner."""
        return replace(data, labels=self._labels(data.labels, where))

    def verified(self, files: Sequence[Path], data: LabelledData) -> Labels:
        """Decisions of people, as classes of the cleaner."""
        names = [str(name) for name in self.cleaner.classes_]
        verified = read_verified(files, replace(data, class_names=names))
        return self._labels(verified, ", ".join(map(str, files)))

    def _labels(self, labels: Labels, where: str) -> Labels:
        """The classes of the cleaner that the labels name; None where there is none."""
        names = [str(name) for name in self.cleaner.classes_]
        if "-1" not in names:
            labels = np.array([None if label == -1 else label for label in labels], dtype=object)
        codes = encode(labels, names, where).tolist()
        found = np.empty(len(labels), dtype=object)
        classes = self.cleaner.classes_.tolist()
        found[:] = [None if code < 0 else classes[code] for code in codes]
        return found


# Labels for new data by the cleaner of a run: features prepared as in the run, then `predict`.


def predict_with_cleaner(
    run: str | Path,
    data: str | Path | pd.DataFrame,
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
    data : path or DataFrame
        Images, a table or arrays of the same kind as those of the run, with or without labels.
    columns, root : optional
        Columns of a table, by default those of the run; and where its image paths start.
    allow_outside : bool
        Read images that lie outside of the data folder.
    embedder : str, optional
        Of a run with an embedder `package.module:callable`: that name, if you trust it.
    progress : callable, optional
        Called with the name of a stage, how much of it is done, and how much there is.
    """
    return predict_with_saved(
        SavedCleaner.open(Path(run), embedder),
        data if isinstance(data, pd.DataFrame) else Path(data),
        columns=columns,
        root=root,
        allow_outside=allow_outside,
        progress=progress,
    )


def predict_with_saved(
    saved: SavedCleaner,
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
    chosen, embedder = saved.align(path, asked)
    chosen = without_missing(chosen, asked, data)
    # What is embedded here must not replace the embeddings that the run keeps of its own data.
    with tempfile.TemporaryDirectory(prefix="csot-") as folder:
        planned = plan_embedding(path, Path(folder), chosen, root, embedder)
        found = read_data(
            data, chosen, root, fault, False, allow_outside, fitted=saved.inputs.table
        )
        saved.check(found, planned)
        features, _ = features_of(found, planned, progress, saved.inputs)
    names = [str(name) for name in saved.cleaner.classes_]
    probabilities = np.asarray(saved.cleaner.predict_proba(features), dtype=np.float32)
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
