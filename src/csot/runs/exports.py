"""Findings as others read them: the user's own table with a new column, and Label Studio tasks."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import pandas as pd

from csot.runs.findings import CONFIDENCE, CORRECTED, GIVEN, IS_ISSUE, SCORE, STATUS
from csot.runs.tables import Kind, kind_of, text_column, to_text

PREVIOUS = f"previous_{CORRECTED}"


def corrected_table(
    table: pd.DataFrame, findings: pd.DataFrame, label_column: str | None = None
) -> pd.DataFrame:
    """A copy of ``table`` whose last column is ``corrected_label``, aligned by index.

    Rows without a finding, such as skipped images, keep the label of ``label_column``, or stay
    empty without it. A column of that name from an earlier run stays, as
    ``previous_corrected_label``.
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
LOCAL_FILES = "/data/local-files/?d="
"""How Label Studio addresses files below its LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT."""


def medium_of(samples: pd.DataFrame | None) -> Medium:
    """What an annotator is shown: the image, else the text, else the plain row."""
    columns = () if samples is None else samples.columns
    return "image" if "image" in columns else "text" if "text" in columns else "row"


def tasks(
    findings: pd.DataFrame,
    samples: pd.DataFrame | None,
    rows: pd.DataFrame | None,
    *,
    model_version: str,
    label_kind: Kind,
) -> list[dict[str, Any]]:
    """One task per finding, in order. ``samples`` and ``rows`` are aligned by id."""
    medium = medium_of(samples)
    if medium == "image" and samples is not None:
        paths = samples["image"].reindex(findings.index).fillna("").tolist()
        shown = [LOCAL_FILES + quote(path, errors="surrogateescape") for path in paths]
    elif medium == "text" and samples is not None:
        shown = samples["text"].reindex(findings.index).fillna("").tolist()
    else:
        shown = _plain_rows(findings.index, rows)
    found = []
    for position, record in enumerate(findings.itertuples(name=None)):
        cell = dict(zip(findings.columns, record[1:], strict=True))
        corrected = to_text(cell[CORRECTED], label_kind)
        data = {
            "id": str(record[0]),
            medium: shown[position],
            GIVEN: to_text(cell[GIVEN], label_kind),
            IS_ISSUE: bool(cell[IS_ISSUE]),
            SCORE: cell[SCORE],
            STATUS: cell[STATUS],
        }
        choice = {
            "from_name": "label",
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


def labelling_config(medium: Medium, class_names: list[str]) -> str:
    """The labelling interface that the tasks fit."""
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in class_names)
    return (
        "<View>\n"
        f'  <{TAGS[medium]} name="{medium}" value="${medium}"/>\n'
        f'  <Choices name="label" toName="{medium}" choice="single" showInline="true">\n'
        f"{choices}\n"
        "  </Choices>\n"
        "</View>\n"
    )


def _plain_rows(index: pd.Index, rows: pd.DataFrame | None) -> list[str]:
    """``column: value`` lines, or the id where nothing else is known."""
    if rows is None:
        return [f"id: {value}" for value in index]
    names = [str(name) for name in rows.columns]
    cells = rows.reindex(index).itertuples(index=False, name=None)
    return ["\n".join(f"{n}: {v}" for n, v in zip(names, row, strict=True)) for row in cells]
