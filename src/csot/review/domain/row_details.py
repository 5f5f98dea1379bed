"""What can be shown of a row: its picture's name, its text, its cells, its neighbours."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot.review.domain.catalogue import Catalogue
from csot.runs.own_table import read_cells

NEIGHBOURS = 8
CELLS = 40
BLOCK = 131_072
"""Rows whose features are held as float32 at once."""
HELD = 2**26
"""Element count up to which features are held as float32 instead of converted at each use."""
AXES = 24
"""Coordinates that the summary of bare features draws."""


@dataclass(frozen=True)
class Neighbour:
    row: int
    similarity: float


class RowDetails:
    """Loaded lazily, or in the background: `load` may run in a thread of its own."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._lock = threading.Lock()
        self._loaded = False
        self._images: list[str] | None = None
        self._texts: list[str] | None = None
        self._cells: pd.DataFrame | None = None
        self._means: dict[int, npt.NDArray[np.float32]] = {}
        features = catalogue.run.read_features()
        fits = features is not None and len(features) == len(catalogue)
        self._features: npt.NDArray[Any] | None = features if fits else None

    def load_early(self) -> None:
        """`load` in the background. What is wrong with the files is said by the first page."""
        with suppress(ValueError, OSError):
            self.load()

    def load(self) -> None:
        with self._lock:
            if self._loaded:
                return
            samples = self._catalogue.run.read_samples()
            if samples is not None:
                samples.index = pd.Index([str(key) for key in samples.index], dtype=object)
                samples = samples.reindex(pd.Index(self._catalogue.ids, dtype=object)).fillna("")
                if "image" in samples:
                    self._images = samples["image"].tolist()
                if "text" in samples:
                    self._texts = samples["text"].tolist()
            if self._images is None and self._texts is None:
                self._cells = read_cells(self._catalogue.run, self._catalogue.ids, CELLS)
            if self._features is not None and self._features.size <= HELD:
                self._features = np.asarray(self._features, dtype=np.float32)
            self._loaded = True

    def image(self, row: int) -> str:
        """Its path as the run has it; empty if there is none."""
        self.load()
        return "" if self._images is None else self._images[row]

    def text(self, row: int) -> str:
        self.load()
        return "" if self._texts is None else self._texts[row]

    def cells(self, row: int) -> list[tuple[str, str]]:
        """Column and cell of the user's own table."""
        self.load()
        if self._cells is None:
            return []
        return list(zip(self._cells.columns, self._cells.iloc[row], strict=True))

    def neighbours(self, row: int) -> list[Neighbour]:
        """The nearest rows by the cosine of their features, the nearest first."""
        if self._features is None:
            return []
        own = np.asarray(self._features[row], dtype=np.float32)
        cosine = np.concatenate(
            [
                np.asarray(self._features[start : start + BLOCK], dtype=np.float32) @ own
                for start in range(0, len(self._features), BLOCK)
            ]
        )
        cosine[row] = -np.inf
        count = min(NEIGHBOURS, len(cosine) - 1)
        if count < 1:
            return []
        near = np.argpartition(-cosine, count - 1)[:count]
        near = near[np.argsort(-cosine[near], kind="stable")]
        return [Neighbour(int(other), float(cosine[other])) for other in near]

    def axes(self, row: int) -> npt.NDArray[np.float32] | None:
        """The first coordinates of a row on principal axes."""
        if self._features is None:
            return None
        return np.asarray(self._features[row, :AXES], dtype=np.float32)

    def mean_axes(self, label: int) -> npt.NDArray[np.float32] | None:
        """The same of the rows that are given a label, on average."""
        if self._features is None or label < 0:
            return None
        if label not in self._means:
            rows = np.flatnonzero(self._catalogue.given == label)
            if not len(rows):
                return None
            some = np.asarray(self._features[rows, :AXES], dtype=np.float32)
            self._means[label] = some.mean(0)
        return self._means[label]
