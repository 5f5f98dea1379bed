"""Labels as the user wrote them -> numbers of classes."""

from __future__ import annotations

import torch
from torch import Tensor

from csot.data.errors import DataError, listed, nearest
from csot.data.labelled import LabelledData, Labels
from csot.untrusted.errors import clip


def class_names_of(data: LabelledData) -> list[str]:
    """The user's own order, else sorted: whole numbers by value, text by letter."""
    if data.class_names is not None:
        return list(data.class_names)
    return [str(label) for label in sorted({label for label in data.labels if label is not None})]


def encode(labels: Labels, class_names: list[str], where: str) -> Tensor:
    """int64 (N,); -1 where there is no label. An error names the first unknown class."""
    number = {name: row for row, name in enumerate(class_names)}
    codes = torch.full((len(labels),), -1)
    for row, label in enumerate(labels):
        if label is None:
            continue
        if str(label) not in number:
            raise DataError(
                f"{where}: the label {clip(repr(label))} in row {row} (from 0) is not a class "
                f"of the training data ({listed(class_names, 8)}){nearest(str(label), class_names)}"
            )
        codes[row] = number[str(label)]
    return codes
