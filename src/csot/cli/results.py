"""What was found -> the files of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot.data import LabelledData
from csot.runs.summary import versions

if TYPE_CHECKING:
    from csot.clean import LabelCleaner
    from csot.runs import Run

SHOWN_COLUMNS = 20
"""Cells of a table's row that an annotator sees."""
NEIGHBOUR_AXES = 64
"""Principal axes that are kept to find a row's nearest neighbours."""


@dataclass(frozen=True)
class Judged:
    """The data, the fitted cleaner, and how it came about."""

    data: LabelledData
    cleaner: LabelCleaner
    source: Mapping[str, str]
    settings: Mapping[str, Any]
    timings: Mapping[str, float]
    inputs: Mapping[str, Any] | None = None
    """How samples became features; None where a cleaner of another run judged them."""
    judged_with: str | None = None
    """That other run."""


def write_results(run: Run, judged: Judged, allow_outside: bool = False) -> None:
    """Every file; the summary after the tables, the report last, because it reads them."""
    from csot.report import write_report

    cleaner = judged.cleaner
    run.write_annotators(None)
    write_tables(run, judged.data, cleaner, cleaner.findings_, cleaner.posterior_)
    if judged.judged_with is None:
        cleaner.save(run.cleaner_path)
    else:
        run.cleaner_path.unlink(missing_ok=True)
    run.write_summary(summary_of(judged))
    write_report(run, allow_outside=allow_outside)


def write_tables(
    run: Run,
    data: LabelledData,
    cleaner: LabelCleaner,
    findings: pd.DataFrame,
    posterior: npt.ArrayLike,
) -> None:
    """What is known of each sample. The classes are those of the cleaner."""
    samples = sample_table(data)
    run.write_findings(findings)
    run.write_samples(samples)
    run.write_duplicates(pd.Series(cleaner.duplicate_groups_, index=findings.index))
    run.write_probabilities(posterior)
    run.write_features(cleaner.model_.rows[:, :NEIGHBOUR_AXES])
    table = data.table
    if table is None:
        own = pd.DataFrame({"id": data.ids, "given_label": data.labels}, index=findings.index)
        run.write_corrected(own.rename_axis(None), findings, label_column="given_label")
    else:
        run.write_corrected(table, findings, label_column=data.label_column)
    shown = None if table is None else table.iloc[:, :SHOWN_COLUMNS]
    run.write_label_studio(
        findings,
        samples if len(samples.columns) else None,
        shown,
        class_names=list(cleaner.classes_),
    )


def sample_table(data: LabelledData) -> pd.DataFrame:
    """By id: the path of the image below the root, or the text, or nothing."""
    index = pd.Index(data.ids, dtype=object)
    if data.images is not None:
        paths = [
            path.relative_to(data.root).as_posix() if path.is_relative_to(data.root) else str(path)
            for path in data.images
        ]
        return pd.DataFrame({"image": paths}, index=index)
    if data.texts is not None:
        return pd.DataFrame({"text": data.texts}, index=index)
    return pd.DataFrame(index=index)


def summary_of(judged: Judged) -> dict[str, Any]:
    """Counts, estimates and circumstances."""
    from csot.clean.duplicates import count_duplicates

    data, cleaner = judged.data, judged.cleaner
    findings = cleaner.findings_
    return {
        "n_rows": len(findings),
        "n_classes": len(cleaner.classes_),
        "class_names": list(cleaner.classes_),
        "n_issues": int(findings["is_label_issue"].sum()),
        "n_corrected": int((findings["status"] == "corrected").sum()),
        "n_uncertain": int((findings["status"] == "uncertain").sum()),
        "n_unlabelled": int(sum(label is None for label in data.labels)),
        "duplicates": asdict(count_duplicates(cleaner.duplicate_groups_, findings["given_label"])),
        **cleaner.noise_summary(),
        "noise_matrix": np.asarray(cleaner.noise_matrix_),
        "class_prior": np.asarray(cleaner.class_prior_),
        "settings": judged.settings,
        "versions": versions(),
        "timings": judged.timings,
        "source": judged.source,
        "skipped": [{"id": skipped.id, "reason": skipped.reason} for skipped in data.skipped],
        "history": cleaner.history_.reset_index(),
        "inputs": judged.inputs,
        "judged_with": judged.judged_with,
    }
