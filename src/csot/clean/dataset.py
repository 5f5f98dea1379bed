"""`clean_dataset`: from a folder, a table or arrays to a finished run. `csot clean` calls it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from csot._core.files import refuse_overlap
from csot.clean.apply import Applied, apply_corrections
from csot.clean.cleaner import LabelCleaner
from csot.clean.inputs import ClassPrior, as_array
from csot.clean.saved_cleaner import SavedCleaner, predict_with_cleaner
from csot.clean.steps import CleaningRequest, fit_and_write, judge_and_write
from csot.data import (
    Columns,
    DataError,
)
from csot.data.readers.read_data import is_frame
from csot.data.readers.verified import as_paths
from csot.embed.preparation import (
    Progress,
)
from csot.report import write_report
from csot.runs import Run
from csot.runs.findings import (
    CONFIDENCE,
    CORRECTED,
    GIVEN,
    IS_ISSUE,
    REASON,
    SCORE,
    suspicion_order,
)
from csot.runs.noise import NoiseEstimate
from csot.runs.predicted import Predicted

SHOWN_ROWS = 5
"""Number of rows that a notebook shows."""


class CleanRun(Run):
    """What `clean_dataset` returns: the folder of the run, and its results in Python."""

    _table: Any = None
    """The table in memory that was cleaned, for `apply`."""

    @cached_property
    def findings(self) -> pd.DataFrame:
        """One row per sample, by id: its labels, score, status and reason."""
        return self.read_findings()

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Counts, noise rate and settings, as in summary.json."""
        return self.read_summary()

    @cached_property
    def cleaner(self) -> LabelCleaner:
        """The fitted cleaner, to judge and predict other rows."""
        return SavedCleaner.open(self.path).cleaner

    def __repr__(self) -> str:
        """One line: `CleanRun('run': 10 of 200 labels look wrong)`."""
        return f"CleanRun({str(self.path)!r}: {self._headline()})"

    def _headline(self) -> str:
        return f"{self.summary['n_issues']:,} of {self.summary['n_rows']:,} labels look wrong"

    def _repr_html_(self) -> str:
        """What a notebook shows: the headline, the most suspicious rows, where the report is."""
        found = self.findings
        noise = NoiseEstimate.of_summary(self.summary)
        order = suspicion_order(
            found[IS_ISSUE].to_numpy(), found[SCORE].to_numpy(), found[GIVEN].notna()
        )
        worst = found.iloc[order[:SHOWN_ROWS]][[GIVEN, CORRECTED, CONFIDENCE, REASON]]
        with pd.option_context("display.max_colwidth", None):
            table = worst.reset_index().to_html(index=False, float_format="{:.3f}".format)
        return (
            f"<p><b>{self._headline()}.</b> "
            f"{'' if noise is None else escape(noise.words())}</p>{table}"
            f"<p>Report: {escape(str(self.report_path))}</p>"
        )

    def report(self, allow_outside: bool = False) -> Path:
        """Write report.html again, and return where it is."""
        write_report(self, allow_outside=allow_outside)
        return self.report_path

    def review(self, **options: Any) -> None:
        """Decide in the browser until Ctrl-C; options as for `csot.review.ReviewServer`."""
        from csot.review import ReviewServer

        server = ReviewServer(self, **options)
        with suppress(KeyboardInterrupt):
            server.serve(lambda: print(server.url, flush=True), browse=True)

    def apply(self, out: str | Path, **options: Any) -> Applied:
        """Write the data set with corrected labels; options as for `apply_corrections`."""
        if self._table is not None:
            options = {"data": self._table, **options}
        return apply_corrections(self, out, **options)

    def predict(self, data: str | Path | pd.DataFrame, **options: Any) -> Predicted:
        """Labels for new data of the same kind; options as for `predict_with_cleaner`."""
        if not isinstance(data, str | Path | pd.DataFrame):
            raise DataError(
                f"data is a {type(data).__name__}: pass a path or a DataFrame, or predict what "
                f"else is in memory by csot.load({str(self.path)!r}).predict_proba(data)"
            )
        return predict_with_cleaner(self.path, data, **options)

    def save(self, path: str | Path) -> CleanRun:
        """Copy the whole run into a new folder, which must not exist or be empty."""
        target = Path(path)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise ValueError(f"{target} exists and is not an empty folder; choose another")
        shutil.copytree(self.path, target, dirs_exist_ok=True)
        return CleanRun.open(target)._of(self._table)

    def _of(self, table: Any) -> CleanRun:
        """The same run, which remembers the table that it cleaned."""
        object.__setattr__(self, "_table", table)
        return self


def clean_dataset(
    data: Any,
    out: str | Path | None = None,
    *,
    labels: Any = None,
    label: str | None = None,
    text: str | None = None,
    image: str | None = None,
    id: str | None = None,
    group: str | None = None,
    features: Sequence[str] | None = None,
    annotator: str | None = None,
    root: str | Path | None = None,
    embedder: str | None = None,
    verified: str | Path | Sequence[str | Path] | None = None,
    votes: str | Path | None = None,
    class_prior: ClassPrior | None = None,
    duplicates: str = "group",
    judge_with: str | Path | None = None,
    seed: int = 0,
    force: bool = False,
    allow_outside: bool = False,
    excel_safe: bool = False,
    merge_variants: bool = False,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
) -> CleanRun:
    """Find which labels of a data set are wrong, what they should be, and how certain that is.

    The data is never changed. The run gets findings.csv, corrected.csv, report.html and more.

    Parameters
    ----------
    data : path, DataFrame, datasets.Dataset or (N, D) array
        A folder of images with one sub-folder per class or a metadata.csv; a .csv, .jsonl or
        .parquet table; an .npz file, or a folder of .npy files, with features and labels; or a
        table or features in memory.
    out : path, optional
        Folder of the run. An interrupted run continues there; results of other data are refused.
        By default a temporary folder, until `save` is called.
    labels : (N,) array, optional
        Given labels of an array of features, None or NaN where there is none.
    label, text, image, id, group, annotator : str, optional
        Columns of a table. With `annotator` a row is one vote, and `id` names the sample.
    features : sequence of str, optional
        Feature columns of a table; by default all that describe a sample. With `text` or
        `image` they are used in addition.
    root : path, optional
        Folder that the image paths of a table are relative to; by default the table's own.
    embedder : str, optional
        Turns images or texts into features: `efficientnet-lite0`, `hf:NAME`, or
        `package.module:callable`.
    verified : path or sequence of paths, optional
        CSV files of final decisions (id, label), or exports of Label Studio. Several files are
        merged; a row with two different labels is an error.
    votes : path, optional
        CSV file of further votes (id, annotator, label).
    class_prior : "uniform" or mapping, optional
        True shares of the classes, by name.
    duplicates : "group" or "ignore"
        Keep near-duplicates in one fold, or do not search for them.
    judge_with : path, optional
        A finished run whose cleaner judges the data; nothing is fitted then.
    seed : int
        Random seed; the result depends only on it and on the data.
    force : bool
        Replace the results of other data in `out`.
    allow_outside : bool
        Read pictures that lie outside of the data folder, by absolute paths or links.
    excel_safe : bool
        Disarm cells of CSV files that a spreadsheet would run as formulas.
    merge_variants : bool
        Treat labels that differ only by case or spaces as one; else a warning names them.
    progress : callable, optional
        Called with the name of a stage, how much of it is done, and how much there is.
    announce : callable, optional
        Called with a line that says which columns of a table are used and which are ignored, once
        it is read; it is also `settings["uses"]` of the summary.

    Returns
    -------
    CleanRun
        With `findings`, `summary`, `cleaner`, `report()`, `review()`, `apply()`,
        `predict()` and `save()`.

    Examples
    --------
    >>> run = csot.clean_dataset("photos/", "run")                    # doctest: +SKIP
    >>> run.findings.query("is_label_issue")                          # doctest: +SKIP
    >>> csot.clean_dataset(frame, label="stars", text="review")       # doctest: +SKIP
    >>> csot.clean_dataset(features, labels=labels)                   # doctest: +SKIP
    """
    if out is not None and not isinstance(out, str | Path):
        raise DataError(
            f"`out` is the folder of the run, got {type(out).__name__}; labels are passed by name: "
            "clean_dataset(features, labels=labels)"
        )
    source = _in_memory(data, labels)
    request = CleaningRequest(
        data=Path(data) if source is None else None,
        frame=source,
        out=Path(tempfile.mkdtemp(prefix="csot-") if out is None else out),
        columns=Columns(
            label=label,
            text=text,
            image=image,
            id=id,
            group=group,
            features=None if features is None else list(features),
            annotator=annotator,
        ),
        root=_path(root),
        embedder=embedder,
        verified=as_paths(verified),
        votes=_path(votes),
        class_prior=class_prior,
        duplicates=duplicates,
        judge_with=_path(judge_with),
        seed=seed,
        force=force,
        allow_outside=allow_outside,
        excel_safe=excel_safe,
        merge_variants=merge_variants,
        announce=announce,
    )
    if request.data is not None:
        refuse_overlap(request.data, request.out)
    if request.judge_with is None:
        fit_and_write(request, progress)
    else:
        judge_and_write(request, request.judge_with, progress)
    return CleanRun.open(request.out)._of(source if is_frame(source) else None)


def _in_memory(data: Any, labels: Any) -> Any:
    """A table of the data if it is in memory; None if it is a path."""
    if isinstance(data, str | Path):
        if labels is not None:
            raise DataError(f"`labels` goes with an array of features; {data} is a path")
        return None
    if is_frame(data):
        if labels is not None:
            raise DataError(
                "`labels` goes with an array of features; of a table name the column by `label`: "
                'clean_dataset(data.assign(kind=labels), label="kind")'
            )
        return data
    if isinstance(data, tuple):
        raise DataError(
            "data is a tuple; pass the labels by name: clean_dataset(features, labels=labels)"
        )
    features = np.asarray(data)
    if features.ndim != 2 or features.dtype.kind not in "fiub":
        raise DataError(
            f"data must be a path, a table or an (N, D) array of numbers, got "
            f"{type(data).__name__} of shape {features.shape}"
        )
    if labels is None:
        raise DataError(
            "an array of features needs `labels`, one per row: "
            "clean_dataset(features, labels=labels)"
        )
    return {"features": features, "labels": as_array(labels)}


def _path(value: str | Path | None) -> Path | None:
    return None if value is None else Path(value)
