"""What the overview pages add up: confusions, oddities, precision so far, agreement."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from csot.review.domain.agreement import consensus, pairs
from csot.review.domain.filters import ODDITIES, Filter
from csot.review.domain.item import DONE
from csot.review.domain.ledger import CODES
from csot.review.domain.precision import bands, wilson
from csot.review.domain.session import Session
from csot.review.web.pages import Pages

LISTED_PAIRS = 30
LISTED_DISAGREEMENTS = 200


def confusions(session: Session) -> list[dict[str, Any]]:
    """The commonest pairs given -> suggested, with what is left of each."""
    c, person = session.catalogue, session.person
    changes = (c.suggested != c.given) & (c.suggested >= 0) & c.flagged
    size = len(c.names) + 1
    key = (c.given + 1) * size + c.suggested + 1
    total, left = Counter(key[changes].tolist()), Counter(key[changes & ~person.decided].tolist())
    found = []
    for pair, count in sorted(total.items(), key=lambda entry: (-entry[1], entry[0])):
        given, suggested = pair // size - 1, pair % size - 1
        wanted = Filter(given=given, suggested=suggested)
        found.append(
            {
                "given": c.name(given),
                "suggested": c.name(suggested),
                "count": count,
                "left": left[pair],
                "query": wanted.query(),
            }
        )
        if len(found) == LISTED_PAIRS:
            break
    return found


def oddities(session: Session) -> list[dict[str, Any]]:
    """Number of rows of each oddity that there is, how many are left, and the filter for them."""
    found = []
    for kind in ODDITIES:
        mask = getattr(session.catalogue.odd, kind)
        if mask.any():
            order = "group" if kind in ("conflict", "duplicate") else "score"
            found.append(
                {
                    "kind": kind,
                    "count": int(mask.sum()),
                    "left": int((mask & ~session.person.decided).sum()),
                    "query": Filter(status=kind, order=order).query(),
                }
            )
    return found


def measured(session: Session) -> dict[str, Any] | None:
    """The precision over all suggestions seen; None before the first."""
    found = bands(session.catalogue, session.person)
    judged, right = sum(b.judged for b in found), sum(b.right for b in found)
    if not judged:
        return None
    return {"judged": judged, "right": right, "estimate": wilson(right, judged)}


def agreement_values(session: Session, pages: Pages) -> dict[str, Any]:
    people = {name: session.ledger.people[name] for name in session.ledger.reviewers()}
    _, disagree = consensus(people, len(session.catalogue))
    rows = np.flatnonzero(disagree)
    listed = []
    for card in pages.cards(rows[:LISTED_DISAGREEMENTS].tolist()):
        said = [
            (name, session.catalogue.name(int(person.label[card.row])))
            for name, person in people.items()
            if person.label[card.row] >= 0
        ]
        listed.append((card, said))
    tallies = []
    for name, person in people.items():
        counts = np.bincount(person.action, minlength=len(CODES) + 1)
        each = {DONE[action]: int(counts[code]) for action, code in CODES.items()}
        tallies.append({"name": name, "decided": int(person.decided.sum()), **each})
    return {
        "tallies": tallies,
        "pairs": pairs(people),
        "disagreements": listed,
        "n_disagreements": len(rows),
        "unknown": len(session.ledger.unknown),
    }
