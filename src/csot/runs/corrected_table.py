"""The user's own table with the corrected labels as a new column."""

from __future__ import annotations

import pandas as pd

from csot.runs.findings import CORRECTED
from csot.runs.tables import kind_of, text_column

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
