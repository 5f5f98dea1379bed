"""`csot clean`: read, embed, judge, write, tell."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from csot._core.files import refuse_overlap
from csot._core.pictures import fault
from csot.cli.consensus import Agreed, show_consensus, write_consensus
from csot.cli.features import PlannedEmbedding, features_of, plan_embedding
from csot.cli.outcome import show_outcome
from csot.cli.priors import align_probabilities, classes_of, parse_class_prior
from csot.cli.results import Judged, write_results
from csot.cli.terminal import Terminal, as_options
from csot.data import (
    Columns,
    DataError,
    LabelledData,
    MissingExtraError,
    TableFeatures,
    all_votes,
    read_data,
    read_verified,
)
from csot.data.types import Labels


@dataclass(frozen=True)
class CleanOptions:
    """What the user asked for."""

    data: Path
    out: Path
    columns: Columns
    root: Path | None = None
    embedder: str | None = None
    verified: Path | None = None
    votes: Path | None = None
    class_prior: str | None = None
    duplicates: str = "group"
    seed: int = 0
    force: bool = False
    allow_outside: bool = False
    excel_safe: bool = False
    merge_variants: bool = False
    judge_with: Path | None = None
    """Finished run whose cleaner judges the data; nothing is fitted then."""

    def again(self) -> list[str]:
        """The same command, to which `--verified FILE` feeds decisions back."""
        columns = self.columns
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
            "--class-prior": self.class_prior,
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
        words = ["csot", "clean", str(self.data), "--out", str(self.out)]
        return [*words, *chain(*options), *given_switches]


def run_clean(options: CleanOptions, terminal: Terminal) -> None:
    """Leave a finished run in `options.out`; `options.data` is only read."""
    from csot.annotators import find_consensus
    from csot.clean import LabelCleaner
    from csot.runs import Run

    refuse_overlap(options.data, options.out)
    clock = Clock()
    with clock("read"):
        data, planned = read_samples(options)
        verified = None if options.verified is None else read_verified(options.verified, data)
        classes = classes_of(data, verified)
        prior = parse_class_prior(options.class_prior, classes)
        pred_probs = align_probabilities(data, classes)
        votes = all_votes(data, options.votes)
        if votes is not None and prior is not None:
            raise DataError("--class-prior is for labels of one annotator; leave it out")
    tell_skipped(data, terminal)
    source = source_of(options, data)
    run = Run.create(options.out, force=options.force, source=source)
    run.write_excel_safe(options.excel_safe)
    with clock("embed"):
        features, inputs = features_of(data, planned, terminal)
    cleaner = LabelCleaner(
        class_prior=prior,
        duplicates=options.duplicates,
        random_state=options.seed,
        progress=terminal.shows_progress,
    )
    with clock("clean"):
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
    settings = settings_of(options, data, planned, verified)
    if votes is not None:
        settings |= {"annotator": options.columns.annotator, "votes": options.votes}
        agreed = Agreed(data, consensus, source, settings, clock.seconds)
        write_consensus(run, agreed, options.allow_outside)
        show_consensus(consensus, options.out, options.again(), terminal)
        return
    judged = Judged(data, cleaner, source, settings, clock.seconds, inputs.as_dict())
    write_results(run, judged, options.allow_outside)
    show_outcome(cleaner, data, options.out, options.again(), terminal)


def read_samples(
    options: CleanOptions, labelled: bool = True, fitted: TableFeatures | None = None
) -> tuple[LabelledData, PlannedEmbedding | None]:
    """The data, and how it will be embedded if it is images or texts."""
    path, columns, root = options.data, options.columns, options.root
    try:
        planned = plan_embedding(path, options.out, columns, root, options.embedder)
    except MissingExtraError:
        # What is wrong with the data comes first: no extra would mend it.
        read_data(path, columns, root, fault, labelled, options.allow_outside)
        raise
    data = read_data(
        path,
        columns,
        root,
        fault if planned is None else planned.fault,
        labelled,
        options.allow_outside,
        fitted=fitted,
        merge_variants=options.merge_variants,
    )
    return data, planned


def source_of(options: CleanOptions, data: LabelledData) -> dict[str, str]:
    """Where the samples are."""
    return {
        "kind": data.kind,
        "path": str(options.data.resolve()),
        "root": str(data.root.resolve()),
    }


def settings_of(
    options: CleanOptions,
    data: LabelledData,
    planned: PlannedEmbedding | None,
    verified: Labels | None,
) -> dict[str, object]:
    """What was asked for, for the summary."""
    return {
        "label": options.columns.label,
        "text": options.columns.text,
        "image": options.columns.image,
        "id": options.columns.id,
        "group": options.columns.group,
        "duplicates": options.duplicates,
        "features": data.feature_columns,
        "embedder": None if planned is None else planned.embedder.name,
        "verified": None if verified is None else sum(label is not None for label in verified),
        "class_prior": options.class_prior,
        "seed": options.seed,
        "command": shlex.join(options.again()),
    }


def tell_skipped(data: LabelledData, terminal: Terminal) -> None:
    """Say which columns are used, and warn of the first samples that could not be read."""
    if data.uses is not None:
        terminal.say(as_options(data.uses))
    for skipped in data.skipped[:3]:
        terminal.warn(f"skipped {skipped.id}: {skipped.reason}")
    if len(data.skipped) > 3:
        terminal.warn(f"skipped {len(data.skipped):,} in all; summary.json lists them")


class Clock:
    """Seconds by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 3)
