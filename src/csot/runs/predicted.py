"""Predictions for new inputs: a table, a file, and what a notebook shows of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot._core.errors import listed
from csot._core.files import atomic_write
from csot.runs.findings import CONFIDENCE, PREDICTED
from csot.runs.tables import write_csv, write_parquet

SHOWN_ROWS, SHOWN_CLASSES = 5, 6
"""Rows that a notebook shows, and classes that the representation names."""


@dataclass(frozen=True, repr=False)
class Predicted:
    """Predictions for M inputs; `table()` is a DataFrame of them.

    Attributes
    ----------
    ids : list of str
    class_names : list of str
    probabilities : array of shape (M, C)
    epoch : int or None
        Epoch of the checkpoint; None where a cleaner predicted.
    accuracy : float or None
        Accuracy on the labels of the data, if there are any.
    """

    ids: list[str]
    class_names: list[str]
    probabilities: npt.NDArray[np.float32]
    epoch: int | None = None
    accuracy: float | None = None

    def __repr__(self) -> str:
        """One line: `Predicted(300 rows; classes cat, dog; mean confidence 0.93)`."""
        facts = [f"{len(self.ids):,} rows", f"classes {listed(self.class_names, SHOWN_CLASSES)}"]
        if len(self.ids):
            facts.append(f"mean confidence {self.probabilities.max(1).mean():.2f}")
        if self.accuracy is not None:
            facts.append(f"accuracy {self.accuracy:.2%}")
        if self.epoch is not None:
            facts.append(f"epoch {self.epoch}")
        return f"Predicted({'; '.join(facts)})"

    def _repr_html_(self) -> str:
        """What a notebook shows: that line and the first rows."""
        rows = slice(0, SHOWN_ROWS)
        first = replace(self, ids=self.ids[rows], probabilities=self.probabilities[rows])
        shown = first.table().iloc[:, : 3 + SHOWN_CLASSES]
        return (
            f"<p>{escape(repr(self))}</p>{shown.to_html(index=False, float_format='{:.3f}'.format)}"
        )

    def table(self) -> pd.DataFrame:
        """Return a table: id, predicted_label, confidence, and prob_<class> per class."""
        names = np.array(self.class_names, dtype=object)
        columns = {
            "id": self.ids,
            PREDICTED: names[self.probabilities.argmax(1)],
            CONFIDENCE: self.probabilities.max(1),
        }
        each = {f"prob_{name}": self.probabilities[:, c] for c, name in enumerate(names)}
        return pd.DataFrame({**columns, **each})

    def write(self, path: str | Path, *, excel_safe: bool = False) -> None:
        """Write a .csv, .parquet or .npz file, completely or not at all.

        Parameters
        ----------
        path : str or Path
            Name of the file; its suffix decides on the format.
        excel_safe : bool
            Disarm cells of a CSV file that a spreadsheet would run as formulas.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix == ".csv":
            write_csv(path, self.table(), excel_safe=excel_safe)
        elif suffix == ".parquet":
            write_parquet(path, self.table())
        elif suffix == ".npz":
            names = np.array(self.class_names)
            with atomic_write(path) as file:
                np.savez(
                    file,
                    ids=np.array(self.ids),
                    predicted_labels=names[self.probabilities.argmax(1)],
                    probabilities=self.probabilities,
                    class_names=names,
                )
        else:
            raise ValueError(f"path {path}: the file must end in .csv, .parquet or .npz")
