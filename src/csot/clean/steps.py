"""The steps of cleaning a data set: read, embed, fit or judge, write the run."""

from __future__ import annotations

import hashlib
import shlex
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from csot._core.pictures import fault
from csot.clean.annotators import find_consensus
from csot.clean.cleaner import LabelCleaner
from csot.clean.inputs import ClassPrior, align_prior, align_probabilities, classes_of
from csot.clean.run_files import Circumstances, write_cleaned, write_consensus
from csot.clean.saved_cleaner import SavedCleaner
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
from csot.data.types import Labels
from csot.embed.preparation import (
    PlannedEmbedding,
    Progress,
    features_of,
    plan_embedding,
)
from csot.runs import Run


@dataclass(frozen=True)
class CleaningRequest:
    """The arguments of `clean_dataset`, for its parts."""

    data: Path | None
    """None for data in memory."""
    frame: Any
    """Data in memory: a table, or features and labels by name."""
    out: Path
    columns: Columns
    root: Path | None
    embedder: str | None
    verified: tuple[Path, ...]
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


def fit_and_write(request: CleaningRequest, progress: Progress | None) -> None:
    """Read, embed, fit, write."""
    timer = _Timer()
    with timer("read"):
        data, planned = _read_samples(request)
        verified = read_verified(request.verified, data) if request.verified else None
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


def judge_and_write(request: CleaningRequest, judge_run: Path, progress: Progress | None) -> None:
    """Read, embed, judge by the cleaner of another run, write."""
    _refuse_fitting(request, judge_run)
    timer = _Timer()
    command = request.command()
    with timer("read"):
        saved = SavedCleaner.open(judge_run)
        if isinstance(request.frame, dict):
            saved.check_medium("arrays", "the data")
        else:
            columns, embedder = saved.align(request.data, request.columns, request.embedder)
            request = replace(request, columns=columns, embedder=embedder)
        data, planned = _read_samples(request, labelled=False, fitted=saved.inputs.table)
        saved.check(data, planned)
        data = saved.with_labels(data, str(request.data or "the data"))
        verified = saved.verified(request.verified, data) if request.verified else None
    source = _source(request, data)
    run = _create_run(request, source)
    with timer("embed"):
        features, _ = features_of(data, planned, progress, saved.inputs)
    with timer("judge"):
        cleaner = saved.cleaner.transfer(features, data.labels, data.ids, verified)
    settings = _settings(request, data, planned, verified) | {
        "command": None if request.data is None else shlex.join(command)
    }
    circumstances = Circumstances(
        source, settings, timer.seconds, judged_with=str(saved.run.resolve())
    )
    write_cleaned(run, data, cleaner, circumstances, request.allow_outside)


def _refuse_fitting(request: CleaningRequest, judge_run: Path) -> None:
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
    request: CleaningRequest, labelled: bool = True, fitted: TableFeatures | None = None
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
        # What is wrong with the data comes first: no extra would fix it.
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


def _create_run(request: CleaningRequest, source: dict[str, str]) -> Run:
    run = Run.create(request.out, force=request.force, source=source)
    run.write_excel_safe(request.excel_safe)
    return run


def _source(request: CleaningRequest, data: LabelledData) -> dict[str, str]:
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
    request: CleaningRequest,
    data: LabelledData,
    planned: PlannedEmbedding | None,
    verified: Labels | None,
) -> dict[str, object]:
    """The arguments, for the summary."""
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
    """Progress of the cleaner, as a function, which is not copied when the cleaner is cloned."""
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
