"""`csot clean NEW --with RUN`: verdicts by the cleaner of a finished run; nothing is fitted."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text

from csot._core.errors import listed
from csot._core.files import refuse_overlap
from csot.cli.clean import (
    CleanOptions,
    Clock,
    read_samples,
    settings_of,
    source_of,
    tell_skipped,
)
from csot.cli.features import PlannedEmbedding, Preparation, features_of, medium_of
from csot.cli.outcome import show_outcome
from csot.cli.results import Judged, write_results
from csot.cli.terminal import Terminal
from csot.data import Columns, DataError, LabelledData, read_verified
from csot.data.types import Labels

if TYPE_CHECKING:
    from csot.clean import LabelCleaner

DESCRIPTIONS = {
    "images": "images",
    "texts": "texts",
    "columns": "columns of a table",
    "arrays": "arrays of features",
}


@dataclass(frozen=True)
class Judge:
    """A finished run as a judge of other data."""

    run: Path
    cleaner: LabelCleaner
    inputs: Preparation
    settings: dict[str, Any]

    @staticmethod
    def open(path: Path) -> Judge:
        """Load the cleaner; an error says why the run has none."""
        from csot.clean import LabelCleaner
        from csot.runs import Run

        run = Run.open(path)
        summary = run.read_summary()
        if summary.get("judged_with"):
            raise DataError(
                f"{path} has no cleaner of its own, it was judged with another run: "
                f"--with {summary['judged_with']}"
            )
        if "n_annotators" in summary:
            raise DataError(
                f"{path} weighed the votes of several annotators; --with needs a run on data with "
                "one label per sample"
            )
        if not run.cleaner_path.exists():
            raise DataError(
                f"{path} has no {run.cleaner_path.name}: an older csot made it; run its "
                "csot clean again"
            )
        try:
            inputs = Preparation.from_dict(summary["inputs"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"the summary of {path} does not say how its samples became features; run its "
                "csot clean again"
            ) from error
        settings = summary.get("settings")
        return Judge(
            path,
            LabelCleaner.load(run.cleaner_path),
            inputs,
            settings if isinstance(settings, dict) else {},
        )

    def options(self, options: CleanOptions) -> CleanOptions:
        """With the columns and the embedder of the run; other ones are refused."""
        columns = options.columns
        if not options.data.exists():
            return options
        if medium_of(options.data, Columns()) == "columns":
            columns = self._columns(columns)
        medium = medium_of(options.data, columns)
        if medium != self.inputs.medium:
            raise DataError(
                f"{options.data} holds {DESCRIPTIONS[medium]}, but {self.run} judges "
                f"{DESCRIPTIONS[self.inputs.medium]}"
            )
        if options.embedder is not None and medium not in ("images", "texts"):
            raise DataError(f"--embedder {options.embedder}: {self.run} used none; leave it out")
        asked, table = columns.features, self.inputs.table
        known = [] if table is None else table.names
        if asked is not None and set(asked) != set(known):
            raise DataError(
                f"--features {','.join(asked)}: {self.run} judges by {listed(known) or 'none'}; "
                "leave --features out"
            )
        embedder = options.embedder or self.inputs.embedder
        return replace(options, columns=columns, embedder=embedder)

    def _columns(self, given: Columns) -> Columns:
        """Names that were not given are those of the run."""
        names = {name: getattr(given, name) or self.settings.get(name) for name in ("label", "id")}
        for name, other in (("text", "image"), ("image", "text")):
            if getattr(given, other) is None:
                names[name] = getattr(given, name) or self.settings.get(name)
        return replace(given, **names)

    def check(self, data: LabelledData, planned: PlannedEmbedding | None) -> None:
        """Refuse another embedder than that of the run, or another number of features."""
        wanted = self.cleaner.n_features_in_
        if planned is None and data.features is not None and data.features.shape[1] != wanted:
            raise DataError(
                f"the data has {data.features.shape[1]} features per row, but {self.run} was "
                f"fitted to {wanted}"
            )
        if planned is None:
            return
        embedder = planned.embedder
        if embedder.name != self.inputs.embedder:
            raise DataError(
                f"--embedder {embedder.name}: {self.run} used {self.inputs.embedder}, and features "
                "of another model cannot be judged by it; leave --embedder out"
            )
        if embedder.version != self.inputs.embedder_version:
            raise DataError(
                f"the embedder {embedder.name} has changed since {self.run} was made (other "
                "weights, preparation or code); run its csot clean again"
            )

    def labels(self, labels: Labels, where: str) -> Labels:
        """The classes of the cleaner that the labels name; None where there is none."""
        from csot.data.labels import encode

        names = [str(name) for name in self.cleaner.classes_]
        if "-1" not in names:
            labels = np.array([None if label == -1 else label for label in labels], dtype=object)
        codes = encode(labels, names, where).tolist()
        found = np.empty(len(labels), dtype=object)
        classes = self.cleaner.classes_.tolist()
        found[:] = [None if code < 0 else classes[code] for code in codes]
        return found


def run_judge(options: CleanOptions, terminal: Terminal) -> None:
    """Leave a finished run in `options.out`, judged by the cleaner of `options.judge_with`."""
    from csot.runs import Run

    assert options.judge_with is not None
    refuse_overlap(options.data, options.out)
    _refuse_refitting(options)
    again, clock = options.again(), Clock()
    with clock("read"):
        judge = Judge.open(options.judge_with)
        options = judge.options(options)
        data, planned = read_samples(options, labelled=False, fitted=judge.inputs.table)
        judge.check(data, planned)
        data = replace(data, labels=judge.labels(data.labels, str(options.data)))
        verified = _verified(options.verified, data, judge)
    tell_skipped(data, terminal)
    source = source_of(options, data)
    run = Run.create(options.out, force=options.force, source=source)
    with clock("embed"):
        features, _ = features_of(data, planned, terminal, judge.inputs)
    with clock("judge"):
        cleaner = judge.cleaner.transfer(features, data.labels, data.ids, verified)
    settings = settings_of(options, data, planned, verified) | {"command": shlex.join(again)}
    judged_with = str(judge.run.resolve())
    judged = Judged(data, cleaner, source, settings, clock.seconds, judged_with=judged_with)
    run.write_excel_safe(options.excel_safe)
    write_results(run, judged, options.allow_outside)
    terminal.say(Text(f"Judged with {judge.run}; nothing was fitted to {options.data}"))
    show_outcome(cleaner, data, options.out, again, terminal)


def _refuse_refitting(options: CleanOptions) -> None:
    assert options.judge_with is not None
    if options.out.resolve() == options.judge_with.resolve():
        raise DataError(f"--out {options.out} is the run that judges; choose a new folder")
    given = {
        "--annotator": options.columns.annotator,
        "--votes": options.votes,
        "--group": options.columns.group,
        "--class-prior": options.class_prior,
        "--duplicates": None if options.duplicates == "group" else options.duplicates,
        "--seed": options.seed or None,
    }
    fitting = [name for name, value in given.items() if value is not None]
    if fitting:
        raise DataError(
            f"{listed(fitting)} cannot go with --with {options.judge_with}: nothing is fitted; "
            "leave it out"
        )


def _verified(path: Path | None, data: LabelledData, judge: Judge) -> Labels | None:
    if path is None:
        return None
    names = [str(name) for name in judge.cleaner.classes_]
    verified = read_verified(path, replace(data, class_names=names))
    return judge.labels(verified, str(path))
