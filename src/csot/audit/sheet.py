"""The audit of a run on disk: `audit.json` holds the plan, a CSV the rows for people to fill in.

A plan is drawn once. It is read back row by row, and never redrawn for the same findings; asking
for more rows continues it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from csot._core.errors import FileError, clip, listed, naming
from csot._core.files import read_json, write_text
from csot.audit.design import AuditPlan, Population, Stratum, draw_plan, population_of
from csot.audit.proposal import Audit
from csot.runs import Run
from csot.runs.findings import ID
from csot.runs.run import FINDINGS
from csot.runs.source import read_cells
from csot.runs.summary import dumps
from csot.runs.tables import from_text, read_text_csv, to_text, write_csv

FILE = "audit.json"
FORMAT = 1
LARGEST = 64 << 20
"""Bytes: some 100 for each of half a million rows."""
VERIFIED_LABEL = "verified_label"
CELL_COLUMNS = 16
"""Columns of a table that are shown, from the left, as in the report."""


def read_plan(run: Run, row_of: Mapping[str, int]) -> AuditPlan | None:
    """The plan of these findings; None if there is none, or if the run was repeated since.

    `row_of` gives the position in the findings by the text of the id.
    """
    path = run.path / FILE
    if not path.exists():
        return None
    with naming(path, "an audit that this csot reads", "move it away and start over"):
        found: dict[str, Any] = read_json(path, LARGEST)
        if found["format"] != FORMAT:
            raise ValueError(f"format {found['format']}")
        if found["findings"] != _digest(run):
            return None
        return AuditPlan(
            strata=tuple(Stratum(**stratum) for stratum in found["strata"]),
            rows=np.array([row_of[row["id"]] for row in found["rows"]], dtype=np.int64),
            stratum=np.array([row["stratum"] for row in found["rows"]], dtype=np.int64),
            seed=int(found["seed"]),
        )


def start_plan(
    run: Run, population: Population, row_of: Mapping[str, int], n_rows: int, seed: int = 0
) -> AuditPlan:
    """The plan of the run, drawn and written if there is none, continued if it is shorter."""
    old = read_plan(run, row_of)
    if old is not None and len(old) >= min(n_rows, int(population.open.sum())):
        return old
    plan = draw_plan(population, n_rows, seed if old is None else old.seed)
    if old is not None and not np.array_equal(plan.rows[: len(old)], old.rows):
        raise ValueError(
            f"{run.path / FILE} was drawn by another version of csot and cannot be continued: "
            "finish it, or move it away and start over"
        )
    ids = list(row_of)
    inclusion = plan.inclusion.tolist()
    values = {
        "format": FORMAT,
        "findings": _digest(run),
        "seed": plan.seed,
        "strata": [asdict(stratum) for stratum in plan.strata],
        "rows": [
            {"id": ids[row], "stratum": stratum, "inclusion_probability": chance}
            for row, stratum, chance in zip(
                plan.rows.tolist(), plan.stratum.tolist(), inclusion, strict=True
            )
        ],
    }
    write_text(run.path / FILE, dumps(values) + "\n")
    return plan


def open_audit(run: Run, n_rows: int | None = None, seed: int = 0) -> Audit | None:
    """The audit of a run, if there is one; with `n_rows` it is started, or continued up to that
    number of rows."""
    findings = run.read_findings()
    population, classes = population_of(findings)
    plan: AuditPlan | None
    kind = run.id_kind  # read from the run's marker each time
    row_of = {to_text(key, kind): row for row, key in enumerate(findings.index)}
    if n_rows is None:
        plan = read_plan(run, row_of)
    else:
        plan = start_plan(run, population, row_of, n_rows, seed).first(n_rows)
    return None if plan is None else Audit(plan, population, findings.index, classes)


def write_sheet(path: Path, run: Run, audit: Audit) -> None:
    """A CSV with an empty column `verified_label`, which `csot clean --verified` reads.

    It shows neither the given nor the suggested label, as either would influence the annotator.
    """
    table = audit.table
    frame = table.drop(columns="position").reset_index(drop=True)
    kind = run.id_kind
    frame.insert(0, ID, [to_text(key, kind) for key in table.index])
    samples = run.read_samples()
    if samples is not None and len(samples.columns):
        for name in samples:
            frame[str(name)] = samples[name].reindex(table.index).to_numpy()
    elif (cells := read_cells(run, frame[ID].tolist(), CELL_COLUMNS)) is not None:
        # A column `label` would be read back as what was decided.
        for name in cells.columns.difference([*frame, "label"], sort=False):
            frame[str(name)] = cells[name].to_numpy()
    frame[VERIFIED_LABEL] = pd.Series([""] * len(frame), dtype=object)
    write_csv(path, frame)


def read_sheet(path: Path, run: Run, audit: Audit) -> tuple[list[Any], int]:
    """The label of each row of the audit, None where the cell is empty; and how many ids of the
    file are not in the audit. `verified.csv` will do as well."""
    if not path.exists():
        raise FileError(f"{path} does not exist (`results`)")
    table = read_text_csv(path)
    column = next((name for name in (VERIFIED_LABEL, "label") if name in table), None)
    if ID not in table or column is None:
        raise FileError(
            f"{path} needs the columns {ID!r} and {VERIFIED_LABEL!r} (`results`); it has "
            f"{listed(table.columns)}"
        )
    kind = run.label_kind
    labels = [*audit.classes, *run.read_summary()["class_names"]]
    names = {to_text(label, kind) for label in labels}
    filled: dict[str, str] = {}
    for key, cell in zip(table[ID].str.strip(), table[column].str.strip(), strict=True):
        if not cell:
            continue
        if cell not in names:
            raise FileError(
                f"{path}: the label {clip(repr(cell))} of id {clip(repr(key))} is not a class of "
                f"the run ({listed(sorted(names), 8)})"
            )
        if filled.setdefault(key, cell) != cell:
            raise FileError(
                f"{path}: id {clip(repr(key))} has two labels, {clip(repr(filled[key]))} and "
                f"{clip(repr(cell))}"
            )
    id_kind = run.id_kind
    ids = [to_text(key, id_kind) for key in audit.index[audit.positions]]
    labels = [from_text(filled.get(key, ""), kind) for key in ids]
    return labels, len(set(filled) - set(ids))


def _digest(run: Run) -> str:
    return hashlib.sha256((run.path / FINDINGS).read_bytes()).hexdigest()
