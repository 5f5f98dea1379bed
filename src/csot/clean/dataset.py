"""``clean_dataset``: from a folder, a table or arrays to a finished run. `csot clean` calls it."""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from csot._core.pictures import fault
from csot.clean.annotators import find_consensus
from csot.clean.classes import ClassPrior, align_prior, align_probabilities, classes_of
from csot.clean.cleaner import LabelCleaner
from csot.clean.judging import Judge
from csot.clean.preparation import (
    PlannedEmbedding,
    Preparation,
    Progress,
    features_of,
    plan_embedding,
)
from csot.clean.records import Circumstances, write_cleaned, write_consensus
from csot.data import (
    Columns,
    DataError,
    DataWarning,
    LabelledData,
    MissingExtraError,
    all_votes,
    read_data,
    read_verified,
)
from csot.data.overlap import refuse_overlap
from csot.data.types import Labels
from csot.report import write_report
from csot.runs import Run


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

    def report(self, allow_outside: bool = False) -> Path:
        """Write report.html again, and return where it is."""
        write_report(self, allow_outside=allow_outside)
        return self.report_path


def clean_dataset(
    data: str | Path,
    out: str | Path,
    *,
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
    progress: Progress | None = None,
) -> CleanRun:
    """Say which labels of a data set are wrong, what they should be, and how sure that is.

    The data is never changed. The run gets findings.csv, corrected.csv, report.html and more.

    Parameters
    ----------
    data : path
        A folder of images with one sub-folder per class; a .csv or .parquet table; an .npz file,
        or a folder of .npy files, with features and labels.
    out : path
        Folder of the run. An interrupted run goes on there; results of other data are refused.
    label, text, image, id, group, annotator : str, optional
        Columns of a table. With ``annotator`` a row is one vote, and ``id`` names the sample.
    features : sequence of str, optional
        Feature columns of a table; all that are numeric by default.
    root : path, optional
        Folder that the image paths of a table start from; else the table's own.
    embedder : str, optional
        Turns images or texts into features: ``efficientnet-lite0``, ``hf:NAME``, or
        ``package.module:callable``.
    verified, votes : path, optional
        CSV files of decisions that are final (id, label), and of more opinions (id, annotator,
        label).
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
    progress : callable, optional
        Called with the name of a stage, how much of it is done, and how much there is.

    Returns
    -------
    CleanRun
        With ``findings``, ``summary``, ``cleaner`` and ``report()``.
    """
    request = Request(
        data=Path(data),
        out=Path(out),
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
    )
    refuse_overlap(request.data, request.out)
    if request.judge_with is None:
        _fit(request, progress)
    else:
        _judge(request, request.judge_with, progress)
    return CleanRun.open(request.out)


@dataclass(frozen=True)
class Request:
    """The arguments of `clean_dataset`, for its parts."""

    data: Path
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
        switches = {"--allow-outside": self.allow_outside, "--excel-safe": self.excel_safe}
        given_switches = [name for name, is_on in switches.items() if is_on]
        words = ["csot", "clean", str(self.data), "--out", str(self.out)]
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
            raise DataError("class_prior is for labels of one annotator; leave it out")
    run = _create_run(request, data)
    with timer("embed"):
        features = features_of(data, planned, progress)
    cleaner = LabelCleaner(
        class_prior=prior,
        duplicates=request.duplicates,
        random_state=request.seed,
        progress=progress or False,
    )
    settings = _settings(request, data, planned, verified)
    source = _source(request, data)
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
        inputs = Preparation.of(data, planned).as_dict()
        circumstances = Circumstances(source, settings, timer.seconds, inputs)
        write_cleaned(run, data, cleaner, circumstances, request.allow_outside)


def _judge(request: Request, judge_run: Path, progress: Progress | None) -> None:
    """Read, embed, judge by the cleaner of another run, write."""
    _refuse_fitting(request, judge_run)
    timer = _Timer()
    command = request.command()
    with timer("read"):
        judge = Judge.open(judge_run)
        columns, embedder = judge.align(request.data, request.columns, request.embedder)
        request = replace(request, columns=columns, embedder=embedder)
        data, planned = _read_samples(request, labelled=False)
        judge.check(data, planned)
        data = judge.with_labels(data, str(request.data))
        verified = None if request.verified is None else judge.verified(request.verified, data)
    run = _create_run(request, data)
    with timer("embed"):
        features = features_of(data, planned, progress, judge.inputs.scale)
    with timer("judge"):
        cleaner = judge.cleaner.transfer(features, data.labels, data.ids, verified)
    settings = _settings(request, data, planned, verified) | {"command": shlex.join(command)}
    circumstances = Circumstances(
        _source(request, data), settings, timer.seconds, judged_with=str(judge.run.resolve())
    )
    write_cleaned(run, data, cleaner, circumstances, request.allow_outside)


def _path(value: str | Path | None) -> Path | None:
    return None if value is None else Path(value)


def _refuse_fitting(request: Request, judge_run: Path) -> None:
    """Nothing that would need a fit goes with `judge_with`."""
    if request.out.resolve() == judge_run.resolve():
        raise DataError(f"out {request.out} is the run that judges; choose a new folder")
    given = {
        "annotator": request.columns.annotator,
        "votes": request.votes,
        "group": request.columns.group,
        "class_prior": request.class_prior,
        "duplicates": None if request.duplicates == "group" else request.duplicates,
        "seed": request.seed or None,
    }
    fitting = [name for name, value in given.items() if value is not None]
    if fitting:
        raise DataError(
            f"{', '.join(fitting)} cannot go with judge_with {judge_run}: nothing is fitted; "
            "leave it out"
        )


def _read_samples(
    request: Request, labelled: bool = True
) -> tuple[LabelledData, PlannedEmbedding | None]:
    """The data, and how it will be embedded if it brings no features."""
    path, columns, root = request.data, request.columns, request.root
    try:
        planned = plan_embedding(path, request.out, columns, root, request.embedder)
    except MissingExtraError:
        # What is wrong with the data comes first: no extra would mend it.
        read_data(path, columns, root, fault, labelled, request.allow_outside)
        raise
    check = fault if planned is None else planned.fault
    data = read_data(path, columns, root, check, labelled, request.allow_outside)
    for skipped in data.skipped[:3]:
        warnings.warn(f"skipped {skipped.id}: {skipped.reason}", DataWarning, stacklevel=4)
    if len(data.skipped) > 3:
        warnings.warn(
            f"skipped {len(data.skipped):,} in all; summary.json lists them",
            DataWarning,
            stacklevel=4,
        )
    return data, planned


def _create_run(request: Request, data: LabelledData) -> Run:
    run = Run.create(request.out, force=request.force, source=_source(request, data))
    run.write_excel_safe(request.excel_safe)
    return run


def _source(request: Request, data: LabelledData) -> dict[str, str]:
    """Where the samples are."""
    return {
        "kind": data.kind,
        "path": str(request.data.resolve()),
        "root": str(data.root.resolve()),
    }


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
        "features": data.feature_columns,
        "embedder": None if planned is None else planned.embedder.name,
        "verified": None if verified is None else sum(label is not None for label in verified),
        "class_prior": request.class_prior,
        "seed": request.seed,
        "command": shlex.join(request.command()),
    }


class _Timer:
    """Seconds by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 3)
