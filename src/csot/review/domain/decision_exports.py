"""Decisions -> verified.csv, the corrected table, Label Studio's JSON, and votes.

These four are written on request; `csot.review` lists all files that the review may write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from csot._core.array_types import Bools, Ints
from csot._core.files import read_json, write_text
from csot._core.label_studio import CONTROL, SAMPLE_ID
from csot._core.pictures import Containment
from csot._core.text import is_unicode
from csot.review.domain.decision_log import FILE, Store
from csot.review.domain.ledger import CODES, UNDECIDED, Ledger, Person, consensus, touched
from csot.review.domain.run_catalogue import Catalogue, load_catalogue
from csot.runs import Run
from csot.runs.findings import CORRECTED, GIVEN
from csot.runs.label_studio_tasks import image_path, shown_medium, tasks
from csot.runs.run import LABEL_STUDIO
from csot.runs.source import read_own_table
from csot.runs.summary import dumps
from csot.runs.tables import csv_text

VERIFIED_FILE = "verified.csv"
REVIEWED_FILE = "reviewed.csv"
STUDIO_FILE = "reviewed_label_studio.json"
VOTES_FILE = "decisions.csv"
LARGEST = 4 << 30
"""Largest size of label_studio.json in bytes: about 500 per row, for millions of rows."""
REVIEW = "review"
"""The column of the corrected table that says whether a person settled the label."""


@dataclass(frozen=True, eq=False)
class ReviewOutcome:
    """What all reviewers together, or one of them, say of every row."""

    label: Ints
    """(N,): the final label, -1 where there is none."""
    disagree: Bools
    touched: Bools
    carried: Bools
    """Verified before this run, and not decided again."""
    discarded: Bools
    """The row was discarded, and no reviewer gave it a label."""


def outcome(catalogue: Catalogue, people: Mapping[str, Person], seen_only: bool) -> ReviewOutcome:
    """`seen_only` leaves out what a rule accepted unseen.

    Rows that were verified before this run stay so, or the next run would forget them.
    """
    considered = only_seen(people) if seen_only else people
    n = len(catalogue)
    label, disagree = consensus(considered, n)
    decided = touched(considered, n)
    carried = catalogue.locked & ~decided
    discarded = np.zeros(n, dtype=np.bool_)
    for person in considered.values():
        discarded |= person.action == CODES["discard"]
    discarded &= (label < 0) & ~disagree
    final = np.where(carried, catalogue.standing, label)
    return ReviewOutcome(final, disagree, decided, carried, discarded)


def verified_csv(catalogue: Catalogue, found: ReviewOutcome) -> tuple[str, int, int]:
    """The text, how many rows it has, and how many ids no CSV in UTF-8 can hold."""
    rows = np.flatnonzero(found.label >= 0).tolist()
    plain = [row for row in rows if is_unicode(catalogue.ids[row])]
    frame = pd.DataFrame(
        {
            "id": [catalogue.ids[row] for row in plain],
            "label": [catalogue.names[found.label[row]] for row in plain],
        },
        dtype=object,
    )
    return csv_text(frame), len(plain), len(rows) - len(plain)


def votes_csv(catalogue: Catalogue, people: Mapping[str, Person]) -> str:
    """A row per reviewer and decided row: id, annotator, label. Unsure rows have no vote."""
    cells = [
        (catalogue.ids[row], name, catalogue.names[person.label[row]])
        for name, person in sorted(people.items())
        for row in np.flatnonzero(person.label >= 0).tolist()
        if is_unicode(catalogue.ids[row])
    ]
    return csv_text(pd.DataFrame(cells, columns=["id", "annotator", "label"], dtype=object))


def reviewed_csv(catalogue: Catalogue, found: ReviewOutcome) -> str:
    """The user's table with `corrected_label` as it is after the review.

    Without a decision, the label is the suggestion of the run; the column `review` tells the two
    apart, and marks what reviewers were unsure of or disagree on, where the given label stays,
    and what they discarded, which has no label.
    """
    table = read_own_table(catalogue.run, catalogue.ids)
    if table is None:
        given = [catalogue.name(label) or "" for label in catalogue.given.tolist()]
        table = pd.DataFrame(
            {"id": catalogue.ids, GIVEN: given},
            index=pd.Index(catalogue.ids, dtype=object),
            dtype=object,
        )
    open_ = found.touched & (found.label < 0)
    final = np.where(found.label >= 0, found.label, catalogue.standing)
    final = np.where(open_, catalogue.given, final)
    final = np.where(found.discarded, -1, final)
    words = np.select(
        [found.label >= 0, found.disagree, found.discarded, open_],
        ["decided", "disagreement", "discarded", "unsure"],
        "",
    )
    names = [catalogue.name(label) or "" for label in final.tolist()]
    labels = dict(zip(catalogue.ids, names, strict=True))
    reviews = dict(zip(catalogue.ids, words.tolist(), strict=True))
    fallback = table[CORRECTED] if CORRECTED in table else [""] * len(table)
    result = table.drop(columns=[CORRECTED], errors="ignore")
    final_names = [labels.get(key, own) for key, own in zip(table.index, fallback, strict=True)]
    result[CORRECTED] = pd.Series(final_names, result.index, dtype=object)
    name = REVIEW
    while name in result:
        name += "_"
    words_by_row = [reviews.get(key, "") for key in table.index]
    result[name] = pd.Series(words_by_row, result.index, dtype=object)
    return csv_text(result, excel_safe=catalogue.run.excel_safe)


def label_studio_json(
    catalogue: Catalogue, people: Mapping[str, Person], pictures: Containment | None = None
) -> str:
    """The run's tasks, with each reviewer's decision as an annotation.

    A picture that lies outside of the data folder is not named in it.
    """
    made, root = _studio_tasks(catalogue), catalogue.run.image_root.resolve()
    allowed = pictures or Containment(root)
    for task in made:
        _drop_outside(task, root, allowed)
        data = task.get("data")
        key = str(data.get(SAMPLE_ID)) if isinstance(data, dict) else ""
        row = catalogue.row_of.get(key)
        if row is not None:
            field = _field(task)
            task["annotations"] = [
                _annotation(catalogue, name, person, row, field)
                for name, person in sorted(people.items())
                if person.action[row]
            ]
    return dumps(made, indent=None)


def write_verified(catalogue: Catalogue, people: Mapping[str, Person]) -> Path:
    """Write the file that `csot clean --verified` reads."""
    found = outcome(catalogue, people, seen_only=False)
    return _write(catalogue, VERIFIED_FILE, verified_csv(catalogue, found)[0])


def write_exports(
    catalogue: Catalogue,
    people: Mapping[str, Person],
    seen_only: bool,
    pictures: Containment | None = None,
) -> dict[str, Path]:
    """All of them into the run."""
    found = outcome(catalogue, people, seen_only)
    considered = only_seen(people) if seen_only else people
    texts = {
        VERIFIED_FILE: verified_csv(catalogue, found)[0],
        REVIEWED_FILE: reviewed_csv(catalogue, found),
        STUDIO_FILE: label_studio_json(catalogue, considered, pictures),
        VOTES_FILE: votes_csv(catalogue, considered),
    }
    return {name: _write(catalogue, name, text) for name, text in texts.items()}


def _write(catalogue: Catalogue, name: str, text: str) -> Path:
    path = catalogue.run.path / name
    write_text(path, text)
    return path


def disagreements_csv(catalogue: Catalogue, people: Mapping[str, Person]) -> str:
    """A column for each reviewer."""
    _, disagree = consensus(people, len(catalogue))
    rows = np.flatnonzero(disagree).tolist()
    columns: dict[str, list[str]] = {"id": [catalogue.ids[row] for row in rows]}
    for name, person in sorted(people.items()):
        key = f"{name}_" if name in columns else name
        columns[key] = [catalogue.name(int(person.label[row])) or "" for row in rows]
    frame = pd.DataFrame(columns, dtype=object)
    return csv_text(frame, excel_safe=catalogue.run.excel_safe)


def only_seen(people: Mapping[str, Person]) -> dict[str, Person]:
    """The same reviewers, without what a rule accepted unseen."""
    return {
        name: Person(
            np.where(person.seen, person.action, UNDECIDED).astype(np.int8),
            np.where(person.seen, person.label, -1),
            person.seen,
        )
        for name, person in people.items()
    }


def _studio_tasks(catalogue: Catalogue) -> list[dict[str, Any]]:
    path = catalogue.run.path / LABEL_STUDIO
    if path.exists():
        found = read_json(path, LARGEST)
        if isinstance(found, list) and all(isinstance(task, dict) for task in found):
            return found
        raise ValueError(f"{path} is not a list of tasks: delete it, and it is made again")
    run = catalogue.run
    findings, samples = run.read_findings(), run.read_samples()
    shown = samples if samples is not None and shown_medium(samples) != "row" else None
    return tasks(
        findings,
        shown,
        None,
        image_root=run.image_root,
        model_version="csot",
        label_kind=run.label_kind,
    )


def _drop_outside(task: dict[str, Any], root: Path, pictures: Containment) -> None:
    data = task.get("data")
    image = data.get("image") if isinstance(data, dict) else None
    if isinstance(data, dict) and isinstance(image, str):
        path = image_path(image, root)
        if path is not None and not pictures.allows_name(path):
            data["image"] = ""


def _field(task: dict[str, Any]) -> str:
    data = task["data"]
    return next(name for name in ("image", "text", "row") if name in data or name == "row")


def _annotation(
    catalogue: Catalogue, name: str, person: Person, row: int, field: str
) -> dict[str, Any]:
    label = catalogue.name(int(person.label[row]))
    choice = {
        "from_name": CONTROL,
        "to_name": field,
        "type": "choices",
        "value": {"choices": [label]},
    }
    no_label = person.action[row] in (CODES["unsure"], CODES["discard"])
    return {
        "result": [] if label is None else [choice],
        "was_cancelled": bool(no_label),
        "meta": {"reviewer": name},
    }


# What people decided on a run, for those who do not review.


@dataclass(frozen=True)
class Decisions:
    """Decisions by id, including labels that were verified before the run."""

    labels: dict[str, str]
    """What reviewers agreed on."""
    undecided: frozenset[str]
    """Rows that reviewers were unsure about, or disagree on."""
    discarded: frozenset[str]
    """Rows that belong to no class."""


def read_decisions(run: Run) -> Decisions:
    """What all reviewers of a run decided."""
    catalogue = load_catalogue(run)
    people = {}
    if (run.path / FILE).exists():
        store = Store(run.path)
        try:
            people = Ledger(catalogue, store).people
        finally:
            store.close()
    found = outcome(catalogue, people, seen_only=False)
    rows = list(zip(catalogue.ids, found.label.tolist(), strict=True))
    labels = {name: catalogue.names[label] for name, label in rows if label >= 0}
    discarded = {catalogue.ids[row] for row in found.discarded.nonzero()[0]}
    touched = {catalogue.ids[row] for row in found.touched.nonzero()[0]}
    return Decisions(labels, frozenset(touched - discarded - labels.keys()), frozenset(discarded))
