"""Tables for others: the user's own with a new column, Label Studio tasks, and predictions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote
from xml.sax.saxutils import quoteattr

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot._core.errors import listed
from csot._core.files import atomic_write
from csot._core.label_studio import CONTROL, LOCAL_FILES, SAMPLE_ID
from csot.runs.findings import (
    CONFIDENCE,
    CORRECTED,
    GIVEN,
    IS_ISSUE,
    PREDICTED,
    SCORE,
    STATUS,
    suspicion_order,
)
from csot.runs.tables import Kind, kind_of, text_column, to_text, write_csv, write_parquet

PREVIOUS = f"previous_{CORRECTED}"


def corrected_table(
    table: pd.DataFrame, findings: pd.DataFrame, label_column: str | None = None
) -> pd.DataFrame:
    """A copy of `table` whose last column is `corrected_label`, aligned by index.

    Rows without a finding, such as skipped images, keep the label of `label_column`, or stay
    empty without it. A column of that name from an earlier run stays, as
    `previous_corrected_label`.
    """
    if label_column is not None and label_column not in table:
        raise ValueError(f"the table has no column {label_column!r}, only {list(table.columns)}")
    if len(table) and not table.index.isin(findings.index).any():
        raise ValueError(
            f"no row of the table is in the findings: ids {table.index[0]!r}, ... against "
            f"{list(findings.index[:1])!r}, ...; give both the same index"
        )
    known = dict(zip(findings.index, findings[CORRECTED], strict=True))
    fallback = [None] * len(table) if label_column is None else table[label_column].tolist()
    labels = [known.get(key, own) for key, own in zip(table.index, fallback, strict=True)]
    result = table.copy()
    if CORRECTED in result:
        result = result.rename(columns={CORRECTED: _free_name(result)})
    column = text_column(labels, kind_of(set(labels)))
    result[CORRECTED] = column.set_axis(result.index)
    return result


def _free_name(table: pd.DataFrame) -> str:
    name, number = PREVIOUS, 1
    while name in table:
        number += 1
        name = f"{PREVIOUS}_{number}"
    return name


Medium = Literal["image", "text", "row"]

TAGS: dict[Medium, str] = {"image": "Image", "text": "Text", "row": "Text"}


def medium_of(samples: pd.DataFrame | None) -> Medium:
    """What an annotator is shown: the image, else the text, else the plain row."""
    columns = () if samples is None else samples.columns
    return "image" if "image" in columns else "text" if "text" in columns else "row"


def tasks(
    findings: pd.DataFrame,
    samples: pd.DataFrame | None,
    rows: pd.DataFrame | None,
    *,
    image_root: Path,
    model_version: str,
    label_kind: Kind,
) -> list[dict[str, Any]]:
    """One task per finding, the most suspicious first: Label Studio shows them as they come.

    `samples` and `rows` are aligned by id. Label Studio serves only folders below its document
    root, not the root itself: images are addressed from the parent of `image_root`.
    """
    labelled = findings[GIVEN].notna()
    score = findings[SCORE].to_numpy(dtype=float)
    order = suspicion_order(findings[IS_ISSUE].to_numpy(dtype=bool), score, labelled)
    findings = findings.iloc[order]
    medium = medium_of(samples)
    if medium == "image" and samples is not None:
        paths = samples["image"].reindex(findings.index).fillna("").tolist()
        shown = [image_address(path, image_root) for path in paths]
    elif medium == "text" and samples is not None:
        shown = samples["text"].reindex(findings.index).fillna("").tolist()
    else:
        shown = _plain_rows(findings.index, rows)
    found = []
    for position, record in enumerate(findings.itertuples(name=None)):
        cell = dict(zip(findings.columns, record[1:], strict=True))
        corrected = to_text(cell[CORRECTED], label_kind)
        data = {
            SAMPLE_ID: str(record[0]),
            medium: shown[position],
            GIVEN: to_text(cell[GIVEN], label_kind),
            IS_ISSUE: bool(cell[IS_ISSUE]),
            SCORE: cell[SCORE],
            STATUS: cell[STATUS],
        }
        choice = {
            "from_name": CONTROL,
            "to_name": medium,
            "type": "choices",
            "value": {"choices": [corrected]},
        }
        prediction = {
            "model_version": model_version,
            "score": cell[CONFIDENCE],
            "result": [choice] if corrected else [],
        }
        found.append({"data": data, "predictions": [prediction]})
    return found


def image_address(path: str, image_root: Path) -> str:
    """What Label Studio loads the image from; nothing where there is no image.

    `path` starts from `image_root`, or is absolute.
    """
    if not path:
        return ""
    root = image_root.resolve()
    whole = root / path
    below = whole.relative_to(root.parent) if whole.is_relative_to(root.parent) else whole
    return LOCAL_FILES + quote(below.as_posix(), errors="surrogateescape")


def image_path(address: str, image_root: Path) -> str | None:
    """The absolute path behind an address that `image_address` made; None for any other."""
    if not address.startswith(LOCAL_FILES):
        return None
    name = unquote(address.removeprefix(LOCAL_FILES), errors="surrogateescape")
    return str(image_root.resolve().parent / name)


def labelling_config(medium: Medium, class_names: list[str]) -> str:
    """The labelling interface that the tasks fit: given label and choices above the sample."""
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in class_names)
    return (
        "<View>\n"
        f'  <Header size="5" value="Given label: ${GIVEN}"/>\n'
        f'  <Choices name="{CONTROL}" toName="{medium}" choice="single" showInline="true">\n'
        f"{choices}\n"
        "  </Choices>\n"
        f'  <{TAGS[medium]} name="{medium}" value="${medium}"/>\n'
        "</View>\n"
    )


def _plain_rows(index: pd.Index, rows: pd.DataFrame | None) -> list[str]:
    """`column: value` lines, or the id where nothing else is known."""
    if rows is None:
        return [f"id: {value}" for value in index]
    names = [str(name) for name in rows.columns]
    cells = rows.reindex(index).itertuples(index=False, name=None)
    return ["\n".join(f"{n}: {v}" for n, v in zip(names, row, strict=True)) for row in cells]


SHOWN_ROWS, SHOWN_CLASSES = 5, 6
"""In a notebook, and in the representation."""


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
