"""What cleaning found -> the files of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot.clean.annotators import Consensus
from csot.clean.cleaner import LabelCleaner
from csot.clean.duplicates import count_duplicates
from csot.data import LabelledData
from csot.report import write_report
from csot.runs import FINDINGS_COLUMNS, Run
from csot.runs.findings import GIVEN
from csot.runs.summary import count_findings, versions

SHOWN_COLUMNS = 20
"""Cells of a table's row that an annotator sees."""
NEIGHBOUR_AXES = 64
"""Principal axes that are kept to find a row's nearest neighbours."""


@dataclass(frozen=True)
class Circumstances:
    """How the findings came about, for the summary."""

    source: Mapping[str, str]
    settings: Mapping[str, Any]
    timings: Mapping[str, float]
    inputs: Mapping[str, Any] | None = None
    """How samples became features; None where a cleaner of another run judged them."""
    judged_with: str | None = None
    """That other run."""


def write_cleaned(
    run: Run,
    data: LabelledData,
    cleaner: LabelCleaner,
    circumstances: Circumstances,
    allow_outside: bool = False,
) -> None:
    """Every file; the summary after the tables, the report last, because it reads them."""
    run.write_annotators(None)
    _write_tables(run, data, cleaner, cleaner.findings_, cleaner.posterior_)
    if circumstances.judged_with is None:
        cleaner.save(run.cleaner_path)
    else:
        run.cleaner_path.unlink(missing_ok=True)
    run.write_summary(_cleaned_summary(data, cleaner, circumstances))
    write_report(run, allow_outside=allow_outside)


def write_consensus(
    run: Run,
    data: LabelledData,
    consensus: Consensus,
    circumstances: Circumstances,
    allow_outside: bool = False,
) -> None:
    """The same for the votes of several annotators, with annotators.csv and votes.csv."""
    assert consensus.cleaner is not None
    findings = consensus.findings[list(FINDINGS_COLUMNS)]
    # Fitted to the consensus: single labels are not to be judged by it.
    run.cleaner_path.unlink(missing_ok=True)
    run.write_annotators(
        consensus.annotators.reset_index(), consensus.votes.rename(columns={"sample": "id"})
    )
    majority = _by_majority(data, findings)
    _write_tables(run, majority, consensus.cleaner, findings, consensus.posterior)
    run.write_summary(_consensus_summary(data, consensus, findings, circumstances))
    write_report(run, allow_outside=allow_outside)


def _write_tables(
    run: Run,
    data: LabelledData,
    cleaner: LabelCleaner,
    findings: pd.DataFrame,
    posterior: npt.ArrayLike,
) -> None:
    """What is known about each sample. The classes are those of the cleaner."""
    samples = _sample_table(data)
    run.write_findings(findings)
    run.write_samples(samples)
    run.write_duplicates(pd.Series(cleaner.duplicate_groups_, index=findings.index))
    run.write_probabilities(posterior)
    run.write_features(cleaner.model_.rows[:, :NEIGHBOUR_AXES])
    table = data.table
    if table is None:
        own = pd.DataFrame({"id": data.ids, GIVEN: data.labels}, index=findings.index)
        run.write_corrected(own.rename_axis(None), findings, label_column=GIVEN)
    else:
        run.write_corrected(table, findings, label_column=data.label_column)
    shown = None if table is None else table.iloc[:, :SHOWN_COLUMNS]
    run.write_label_studio(
        findings,
        samples if len(samples.columns) else None,
        shown,
        class_names=list(cleaner.classes_),
        image_root=data.root,
    )


def _sample_table(data: LabelledData) -> pd.DataFrame:
    """Table by id: the path of the image below the root, or the text, or no column."""
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


def _by_majority(data: LabelledData, findings: pd.DataFrame) -> LabelledData:
    """The same samples, whose given label is that of the majority."""
    table = data.table
    if table is not None and data.label_column is not None and data.votes is not None:
        # Skipped samples keep theirs.
        table = table.copy()
        table.loc[findings.index, data.label_column] = findings[GIVEN].astype(object)
    return replace(data, labels=findings[GIVEN].to_numpy(dtype=object), table=table)


def _cleaned_summary(
    data: LabelledData, cleaner: LabelCleaner, circumstances: Circumstances
) -> dict[str, Any]:
    findings = cleaner.findings_
    return {
        **count_findings(findings, list(cleaner.classes_)),
        "duplicates": asdict(count_duplicates(cleaner.duplicate_groups_, findings[GIVEN])),
        **cleaner.noise_summary(),
        "noise_matrix": np.asarray(cleaner.noise_matrix_),
        "class_prior": np.asarray(cleaner.class_prior_),
        **_circumstances(data, circumstances),
        "history": cleaner.history_.reset_index(),
        "inputs": circumstances.inputs,
        "judged_with": circumstances.judged_with,
    }


def _consensus_summary(
    data: LabelledData,
    consensus: Consensus,
    findings: pd.DataFrame,
    circumstances: Circumstances,
) -> dict[str, Any]:
    return {
        **count_findings(findings, list(consensus.classes)),
        "n_unlabelled": int((consensus.findings["n_votes"] == 0).sum()),
        "n_annotators": len(consensus.annotators),
        "n_votes": len(consensus.votes),
        "n_vote_issues": int(consensus.votes["is_vote_issue"].sum()),
        "noise_rate": consensus.noise_rate,
        "noise_matrix": np.asarray(consensus.noise_matrix),
        "class_prior": np.asarray(consensus.class_prior),
        **_circumstances(data, circumstances),
    }


def _circumstances(data: LabelledData, circumstances: Circumstances) -> dict[str, Any]:
    return {
        "settings": circumstances.settings,
        "versions": versions(),
        "timings": circumstances.timings,
        "source": circumstances.source,
        "skipped": [{"id": skipped.id, "reason": skipped.reason} for skipped in data.skipped],
    }
