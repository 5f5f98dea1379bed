"""Pages to read: rows one by one and in a grid, overview, precision. GET only; nothing changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from csot.review.domain.filters import ODDITIES, Filter, parse_filter
from csot.review.domain.ledger import CODES, consensus, pairs
from csot.review.domain.precision import bands, forecast, wilson
from csot.review.domain.session import Session
from csot.review.domain.shown_row import DONE
from csot.review.web.pages import Pages

PAGE = 60


def add_row_routes(app: FastAPI, session: Session, pages: Pages) -> None:
    @app.get("/one")
    def one(request: Request, row: int | None = None) -> HTMLResponse:
        session.refresh()
        wanted = parse_filter(request.query_params)
        if row is None:
            rows = session.selector.rows(wanted, session.person)
            row = int(rows[0]) if len(rows) else None
        else:
            check_row(session, row)
        values = {"query": wanted.query(), **pages.filter_values(wanted)}
        return HTMLResponse(pages.page("one", item=pages.item(row, wanted), **values))

    @app.get("/api/step")
    def step(request: Request, row: int, by: int) -> dict[str, Any]:
        session.refresh()
        wanted = parse_filter(request.query_params)
        check_row(session, row)
        found = row if by == 0 else session.selector.step(wanted, session.person, row, by)
        return {"item": None if found is None else pages.item(found, wanted)}

    @app.get("/grid")
    def grid(request: Request, start: int | None = None, back: int = 0) -> HTMLResponse:
        session.refresh()
        wanted = parse_filter(request.query_params)
        if start is not None:
            check_row(session, start)
        rows, place, total = session.selector.window(
            wanted, session.person, start, PAGE, back=bool(back)
        )
        values = {
            "cards": pages.cards(rows.tolist()),
            "place": place,
            "total": total,
            "after": _after(session, wanted, rows.tolist()),
            "confusions": confusions(session),
            **pages.filter_values(wanted),
        }
        return HTMLResponse(pages.page("grid", **values))


def check_row(session: Session, row: int) -> None:
    if not 0 <= row < len(session.catalogue):
        raise HTTPException(404, f"There is no row {row}.")


def _after(session: Session, wanted: Filter, rows: list[int]) -> int | None:
    """The first row of the next page."""
    return session.selector.step(wanted, session.person, rows[-1], 1) if rows else None


THRESHOLDS = (0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)


def add_number_routes(app: FastAPI, session: Session, pages: Pages) -> None:
    """Overview, precision and reviewers. GET only; nothing here changes anything."""
    catalogue = session.catalogue

    @app.get("/")
    def overview() -> HTMLResponse:
        session.refresh()
        values = {
            "confusions": confusions(session),
            "others": other_rows(session),
            "oddities": oddities(session),
            "measured": measured(session),
            "n_rows": len(catalogue),
            "n_classes": len(catalogue.names),
        }
        return HTMLResponse(pages.page("overview", **values))

    @app.get("/precision")
    def precision() -> HTMLResponse:
        session.refresh()
        offers = [forecast(catalogue, session.person, threshold) for threshold in THRESHOLDS]
        values = {
            "bands": bands(catalogue, session.person),
            "offers": [offer for offer in offers if offer is not None],
            "measured": measured(session),
            "n_changes": int(catalogue.changes.sum()),
        }
        return HTMLResponse(pages.page("precision", **values))

    @app.get("/api/forecast")
    def api_forecast(threshold: float) -> dict[str, Any]:
        session.refresh()
        if not 0 <= threshold <= 1:
            raise ValueError(f"threshold={threshold}: give a number from 0 to 1")
        offer = forecast(catalogue, session.person, threshold)
        html = pages.render("_forecast.html", offer=offer, threshold=threshold)
        return {"html": html, "count": 0 if offer is None else offer.count}

    @app.get("/reviewers")
    def reviewers() -> HTMLResponse:
        session.refresh()
        return HTMLResponse(pages.page("reviewers", **agreement_values(session, pages)))


# What the overview pages add up: confusions, oddities, precision so far, agreement.

LISTED_PAIRS = 30
LISTED_DISAGREEMENTS = 200


def confusions(session: Session) -> list[dict[str, Any]]:
    """The commonest pairs given -> suggested, with what is left of each."""
    c, person = session.catalogue, session.person
    changes = c.differs & c.flagged
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


def other_rows(session: Session) -> dict[str, Any]:
    """Rows to look at that no class pair has, and those of the pairs that are not listed."""
    c, person, listed = session.catalogue, session.person, confusions(session)
    unchanged = c.flagged & ~c.differs
    pairs = c.flagged & c.differs
    return {
        "count": int(unchanged.sum()),
        "left": int((unchanged & ~person.decided).sum()),
        "query": Filter(status="unchanged").query(),
        "rare_count": int(pairs.sum()) - sum(pair["count"] for pair in listed),
        "rare_left": int((pairs & ~person.decided).sum()) - sum(pair["left"] for pair in listed),
    }


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
