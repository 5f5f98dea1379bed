"""What people decided on a run, for those who do not review."""

from __future__ import annotations

from csot.review.domain.catalogue import load_catalogue
from csot.review.domain.export import outcome
from csot.review.domain.ledger import Ledger
from csot.review.domain.store import FILE, Store
from csot.runs import Run


def read_decisions(run: Run) -> dict[str, str | None]:
    """The label that reviewers agreed on, by id; None where they were unsure or disagree.

    Labels that were verified before the run are among them. Rows that nobody decided are not.
    """
    catalogue = load_catalogue(run)
    people = {}
    if (run.path / FILE).exists():
        store = Store(run.path)
        try:
            people = Ledger(catalogue, store).people
        finally:
            store.close()
    found = outcome(catalogue, people, seen_only=False)
    return {
        name: catalogue.name(int(label))
        for name, label, touched in zip(catalogue.ids, found.label, found.touched, strict=True)
        if label >= 0 or touched
    }
