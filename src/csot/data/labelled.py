"""What every reader returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

Labels = npt.NDArray[np.object_]
Matrix = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Skipped:
    """A row or file that was left out, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class LabelledData:
    """N samples with their given labels. Nothing in it is ever written back.

    Exactly one of `features`, `images` and `texts` is there.
    """

    kind: str
    """`images`, `table` or `arrays`."""
    root: Path
    """The folder that relative image paths start from."""
    ids: list[str]
    """Unique, (N,)."""
    labels: Labels
    """All `str` or all `int`, (N,); None where there is none."""
    class_names: list[str] | None = None
    """The user's own order of the classes, where one was given."""
    features: Matrix | None = None
    """(N, D); may be a memory map."""
    pred_probs: Matrix | None = None
    """(N, C); columns in the order of `class_names`, or of the sorted labels."""
    images: list[Path] | None = None
    texts: list[str] | None = None
    table: pd.DataFrame | None = None
    """The user's own table, every row of it, indexed by id."""
    label_column: str | None = None
    feature_columns: list[str] | None = None
    groups: npt.NDArray[np.object_] | None = None
    """(N,); samples of one group belong together, missing where a sample belongs to none."""
    votes: pd.DataFrame | None = None
    """A row per vote (sample, annotator, label), where several annotators labelled the samples;
    `labels` are then the majority's."""
    skipped: list[Skipped] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)
