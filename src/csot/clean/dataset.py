"""``clean_dataset``: from a folder, a table or arrays to a finished run. `csot clean` calls it."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from csot._core.files import refuse_overlap
from csot._core.pictures import fault
from csot.clean.annotators import find_consensus
from csot.clean.apply import Applied, apply_corrections
from csot.clean.classes import ClassPrior, align_prior, align_probabilities, classes_of
from csot.clean.cleaner import LabelCleaner
from csot.clean.judging import Judge
from csot.clean.labels import as_array
from csot.clean.predict import predict_with_cleaner
from csot.clean.records import Circumstances, write_cleaned, write_consensus
from csot.data import (
    Columns,
    DataError,
    DataWarning,
    LabelledData,
    MissingExtraError,
    TableFeatures,
    all_votes,
    read_data,
    read_verified,
)
from csot.data.readers.arrays import from_arrays
from csot.data.readers.frame import is_frame
from csot.data.types import Labels
from csot.embed.preparation import (
    PlannedEmbedding,
    Progress,
    features_of,
    plan_embedding,
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
from csot.runs.predictions import Predicted

SHOWN_ROWS = 5
"""In a notebook."""


class CleanRun(Run):
    """What `clean_dataset` returns: the folder of the run, and its results in Python."""

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
        return Judge.open(self.path).cleaner

    def _repr_html_(self) -> str:
        """What a notebook shows: the headline, the most suspicious rows, where the report is."""
        found, summary = self.findings, self.summary
        noise = NoiseEstimate.of_summary(summary)
        order = suspicion_order(
            found[IS_ISSUE].to_numpy(), found[SCORE].to_numpy(), found[GIVEN].notna()
        )
        worst = found.iloc[order[:SHOWN_ROWS]][[GIVEN, CORRECTED, CONFIDENCE, REASON]]
        with pd.option_context("display.max_colwidth", None):
            table = worst.to_html(float_format="{:.3f}".format)
        return (
            f"<p><b>{summary['n_issues']:,} of {summary['n_rows']:,} labels look wrong.</b> "
            f"{'' if noise is None else escape(noise.words())}</p>{table}"
            f"<p>Report: {escape(str(self.report_path))}</p>"
        )

    def report(self, allow_outside: bool = False) -> Path:
        """Write report.html again, and return where it is."""
        write_report(self, allow_outside=allow_outside)
        return self.report_path

    def review(self, **options: Any) -> None:
        """Decide in the browser until Ctrl-C; options as of `csot.review.ReviewServer`."""
        from csot.review import ReviewServer

        server = ReviewServer(self, **options)
        with suppress(KeyboardInterrupt):
            server.serve(lambda: print(server.url, flush=True), browse=True)

    def apply(self, out: str | Path, **options: Any) -> Applied:
        """Write the data set with corrected labels; options as of `apply_corrections`."""
        return apply_corrections(self, out, **options)

    def predict(self, data: str | Path, **options: Any) -> Predicted:
        """Labels for new data of the same kind; options as of `predict_with_cleaner`."""
        return predict_with_cleaner(self.path, data, **options)

    def save(self, path: str | Path) -> CleanRun:
        """Copy the whole run into a new folder, which must not exist or be empty."""
        target = Path(path)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise ValueError(f"{target} exists and is not an empty folder; choose another")
        shutil.copytree(self.path, target, dirs_exist_ok=True)
        return CleanRun.open(target)


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
    verified: str | Path | None = None,
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
    """Say which labels of a data set are wrong, what they should be, and how sure that is.

    The data is never changed. The run gets findings.csv, corrected.csv, report.html and more.

    Parameters
    ----------
    data : path, DataFrame, datasets.Dataset or (N, D) array
        A folder of images with one sub-folder per class or a metadata.csv; a .csv, .jsonl or
        .parquet table; an .npz file, or a folder of .npy files, with features and labels; or a
        table or features in memory.
    out : path, optional
        Folder of the run. An interrupted run goes on there; results of other data are refused.
        By default a temporary folder, until ``save`` is called.
    labels : (N,) array, optional
        Given labels of an array of features, None or NaN where there is none.
    label, text, image, id, group, annotator : str, optional
        Columns of a table. With ``annotator`` a row is one vote, and ``id`` names the sample.
    features : sequence of str, optional
        Feature columns of a table; by default all that describe a sample. With ``text`` or
        ``image`` they are used beside it.
    root : path, optional
        Folder that the image paths of a table start from; else the table's own.
    embedder : str, optional
        Turns images or texts into features: ``efficientnet-lite0``, ``hf:NAME``, or
        ``package.module:callable``.
    verified, votes : path, optional
        CSV files of decisions that are final (id, label), and of more opinions (id, annotator,
        label); or exports of Label Studio.
    class_prior : "uniform" or mapping, optional
        True shares of the classes, by name.
    duplicates : "group" or "ignore"
        Whether near-duplicates are kept out of each other's training.
    judge_with : path, optional
        A finished run whose cleaner judges the data; nothing is fitted then.
    seed : int
        The result depends on the data and on it.
    force : bool
        Replace the results of other data in ``out``.
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
        it is read; it is also ``settings["uses"]`` of the summary.

    Returns
    -------
    CleanRun
        With ``findings``, ``summary``, ``cleaner``, ``report()``, ``review()``, ``apply()``,
        ``predict()`` and ``save()``.

    Examples
    --------
    >>> run = csot.clean_dataset("photos/", "run")                    # doctest: +SKIP
    >>> run.findings.query("is_label_issue")                          # doctest: +SKIP
    >>> csot.clean_dataset(frame, label="stars", text="review")       # doctest: +SKIP
    """
    source = _in_memory(data, labels)
    request = Request(
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
        verified=_path(verified),
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
        _fit(request, progress)
    else:
        _judge(request, request.judge_with, progress)
    return CleanRun.open(request.out)


@dataclass(frozen=True)
class Request:
    """The arguments of `clean_dataset`, for its parts."""

    data: Path | None
    """None for data in memory."""
    frame: Any
    """Of data in memory: a table, or features and labels by name."""
    out: Path
    columns: Columns
    root: Path | None
    embedder: str | None
    verified: Path | None
    votes: Path | None
    class_prior: ClassPrior | None
    duplicates: str
    judge_with: Path | None
    seed: int
    force: bool
    allow_outside: bool
    excel_safe: bool
    merge_variants: bool
    announce: Callable[[str], None] | None

    def command(self) -> list[str]:
        """`csot clean ...`, to which `--verified FILE` feeds decisions back."""
        columns, prior = self.columns, self.class_prior
        if prior is not None and not isinstance(prior, str):
            prior = ",".join(f"{name}={share}" for name, share in prior.items())
        given = {
            "--label": columns.label,
            "--text": columns.text,
            "--image": columns.image,
            "--id": columns.id,
            "--group": columns.group,
            "--annotator": columns.annotator,
            "--features": None if columns.features is None else ",".join(columns.features),
            "--root": self.root,
            "--embedder": self.embedder,
            "--votes": self.votes,
            "--class-prior": prior,
            "--duplicates": None if self.duplicates == "group" else self.duplicates,
            "--seed": self.seed or None,
            "--with": self.judge_with,
        }
        options = [[name, str(value)] for name, value in given.items() if value is not None]
        switches = {
            "--allow-outside": self.allow_outside,
            "--excel-safe": self.excel_safe,
            "--merge-variants": self.merge_variants,
        }
        given_switches = [name for name, is_on in switches.items() if is_on]
        words = ["csot", "clean", str(self.data or "DATA"), "--out", str(self.out)]
        return [*words, *chain(*options), *given_switches]


def _fit(request: Request, progress: Progress | None) -> None:
    """Read, embed, fit, write."""
    timer = _Timer()
    with timer("read"):
        data, planned = _read_samples(request)
        verified = None if request.verified is None else read_verified(request.verified, data)
        classes = classes_of(data, verified)
        prior = align_prior(request.class_prior, classes)
        pred_probs = align_probabilities(data, classes)
        votes = all_votes(data, request.votes)
        if votes is not None and prior is not None:
            raise DataError("`class_prior` is for labels of one annotator; leave it out")
    source = _source(request, data)
    run = _create_run(request, source)
    with timer("embed"):
        features, inputs = features_of(data, planned, progress)
    cleaner = LabelCleaner(
        class_prior=prior,
        duplicates=request.duplicates,
        random_state=request.seed,
        progress=_cleaning(progress) or False,
    )
    settings = _settings(request, data, planned, verified)
    with timer("clean"):
        if votes is None:
            cleaner.fit(features, data.labels, pred_probs, data.ids, verified, data.groups)
        else:
            consensus = find_consensus(
                votes,
                features,
                pred_probs,
                samples=data.ids,
                class_names=classes,
                verified=verified,
                cleaner=cleaner,
                groups=data.groups,
            )
    if votes is not None:
        settings |= {"annotator": request.columns.annotator, "votes": request.votes}
        circumstances = Circumstances(source, settings, timer.seconds)
        write_consensus(run, data, consensus, circumstances, request.allow_outside)
    else:
        circumstances = Circumstances(source, settings, timer.seconds, inputs.as_dict())
        write_cleaned(run, data, cleaner, circumstances, request.allow_outside)


def _judge(request: Request, judge_run: Path, progress: Progress | None) -> None:
    """Read, embed, judge by the cleaner of another run, write."""
    _refuse_fitting(request, judge_run)
    timer = _Timer()
    command = request.command()
    with timer("read"):
        judge = Judge.open(judge_run)
        if isinstance(request.frame, dict):
            judge.check_medium("arrays", "the data")
        else:
            columns, embedder = judge.align(request.data, request.columns, request.embedder)
            request = replace(request, columns=columns, embedder=embedder)
        data, planned = _read_samples(request, labelled=False, fitted=judge.inputs.table)
        judge.check(data, planned)
        data = judge.with_labels(data, str(request.data or "the data"))
        verified = None if request.verified is None else judge.verified(request.verified, data)
    source = _source(request, data)
    run = _create_run(request, source)
    with timer("embed"):
        features, _ = features_of(data, planned, progress, judge.inputs)
    with timer("judge"):
        cleaner = judge.cleaner.transfer(features, data.labels, data.ids, verified)
    settings = _settings(request, data, planned, verified) | {
        "command": None if request.data is None else shlex.join(command)
    }
    circumstances = Circumstances(
        source, settings, timer.seconds, judged_with=str(judge.run.resolve())
    )
    write_cleaned(run, data, cleaner, circumstances, request.allow_outside)


def _in_memory(data: Any, labels: Any) -> Any:
    """A table of the data if it is in memory; None if it is a path."""
    if isinstance(data, str | Path):
        if labels is not None:
            raise DataError(f"`labels` goes with an array of features; {data} is a path")
        return None
    if is_frame(data):
        if labels is not None:
            raise DataError("`labels` goes with an array of features; name the column by `label`")
        return data
    features = np.asarray(data)
    if features.ndim != 2 or features.dtype.kind not in "fiub":
        raise DataError(
            f"data must be a path, a table or an (N, D) array of numbers, got "
            f"{type(data).__name__} of shape {features.shape}"
        )
    if labels is None:
        raise DataError("an array of features needs `labels`, one per row")
    return {"features": features, "labels": as_array(labels)}


def _path(value: str | Path | None) -> Path | None:
    return None if value is None else Path(value)


def _refuse_fitting(request: Request, judge_run: Path) -> None:
    """Nothing that would need a fit goes with `judge_with`."""
    if request.out.resolve() == judge_run.resolve():
        raise DataError(f"`out` {request.out} is the run that judges; choose a new folder")
    given = {
        "annotator": request.columns.annotator,
        "votes": request.votes,
        "group": request.columns.group,
        "class_prior": request.class_prior,
        "duplicates": None if request.duplicates == "group" else request.duplicates,
        "seed": request.seed or None,
    }
    fitting = [f"`{name}`" for name, value in given.items() if value is not None]
    if fitting:
        raise DataError(
            f"{', '.join(fitting)} cannot go with `judge_with` {judge_run}: nothing is fitted; "
            "leave it out"
        )


def _read_samples(
    request: Request, labelled: bool = True, fitted: TableFeatures | None = None
) -> tuple[LabelledData, PlannedEmbedding | None]:
    """The data, and how it will be embedded if it is images or texts."""
    columns, root, outside = request.columns, request.root, request.allow_outside
    source = request.frame if request.data is None else request.data
    if isinstance(source, dict):
        if columns != Columns() or root is not None or request.embedder is not None:
            raise DataError(
                "features in memory have no columns: `label`, `text`, `image`, `id`, `group`, "
                "`features`, `annotator`, `root` and `embedder` are for tables and files"
            )
        return from_arrays(Path("the arrays"), source, list(source), labelled), None
    try:
        planned = plan_embedding(request.data, request.out, columns, root, request.embedder)
    except MissingExtraError:
        # What is wrong with the data comes first: no extra would mend it.
        read_data(source, columns, root, fault, labelled, outside)
        raise
    data = read_data(
        source,
        columns,
        root,
        fault if planned is None else planned.fault,
        labelled,
        outside,
        fitted=fitted,
        merge_variants=request.merge_variants,
    )
    if request.announce is not None and data.uses is not None:
        request.announce(data.uses)
    for skipped in data.skipped[:3]:
        warnings.warn(f"skipped {skipped.id}: {skipped.reason}", DataWarning, stacklevel=4)
    if len(data.skipped) > 3:
        warnings.warn(
            f"skipped {len(data.skipped):,} in all; summary.json lists them",
            DataWarning,
            stacklevel=4,
        )
    return data, planned


def _create_run(request: Request, source: dict[str, str]) -> Run:
    run = Run.create(request.out, force=request.force, source=source)
    run.write_excel_safe(request.excel_safe)
    return run


def _source(request: Request, data: LabelledData) -> dict[str, str]:
    """Where the samples are; of data in memory, what they are."""
    source = {"kind": data.kind, "root": str(data.root.resolve())}
    if request.data is not None:
        return {**source, "path": str(request.data.resolve())}
    digest = hashlib.sha256("\0".join(data.ids).encode())
    digest.update(repr(data.labels.tolist()).encode())
    if data.features is not None:
        digest.update(np.ascontiguousarray(data.features).tobytes())
    return {**source, "digest": digest.hexdigest()}


def _settings(
    request: Request,
    data: LabelledData,
    planned: PlannedEmbedding | None,
    verified: Labels | None,
) -> dict[str, object]:
    """What was asked for, for the summary."""
    return {
        "label": request.columns.label,
        "text": request.columns.text,
        "image": request.columns.image,
        "id": request.columns.id,
        "group": request.columns.group,
        "duplicates": request.duplicates,
        "merge_variants": request.merge_variants,
        "features": data.feature_columns,
        "uses": data.uses,
        "embedder": None if planned is None else planned.embedder.name,
        "verified": None if verified is None else sum(label is not None for label in verified),
        "class_prior": request.class_prior,
        "seed": request.seed,
        "command": None if request.data is None else shlex.join(request.command()),
    }


def _cleaning(progress: Progress | None) -> Progress | None:
    """Its stages for the cleaner; a function, of which a clone of the cleaner makes no copy."""
    if progress is None:
        return None
    return lambda stage, done, total: progress(f"Cleaning ({stage})", done, total)


class _Timer:
    """Seconds by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 3)
