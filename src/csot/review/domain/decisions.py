"""What people decided on a run, for those who do not review."""

from __future__ import annotations

from dataclasses import dataclass

from csot.review.domain.catalogue import load_catalogue
from csot.review.domain.export import outcome
from csot.review.domain.ledger import Ledger
from csot.review.domain.store import FILE, Store
from csot.runs import Run


@dataclass(frozen=True)
class Decisions:
    """By the id of the row. Labels that were verified before the run are among them."""

    labels: dict[str, str]
    """What reviewers agreed on."""
    undecided: frozenset[str]
    """Rows of which they were unsure, or on which they disagree."""
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
