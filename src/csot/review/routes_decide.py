"""What changes anything: decide, undo, accept all above a confidence."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from fastapi import FastAPI
from starlette.exceptions import HTTPException

from csot.review.pages import Pages
from csot.review.requests import AcceptAbove, Decide, Sent, Undo
from csot.review.routes_rows import check_row
from csot.review.select import Filter, parse_filter
from csot.review.session import Session


def add_decide_routes(app: FastAPI, session: Session, pages: Pages) -> None:
    """POST only. An answer means that the decision is on the disk."""

    @app.post("/api/decide")
    def decide(sent: Decide) -> dict[str, Any]:
        check_stamp(session, sent)
        for row in sent.rows:
            check_row(session, row)
        if sent.way in ("rule", "audit"):
            raise ValueError(f"way={sent.way} has an address of its own")
        wanted = _view(sent.view)  # before anything is saved: an error means that nothing was
        saved = session.decide(sent.rows, sent.action, sent.label, sent.way, sent.batch)
        answer: dict[str, Any] = {"saved": saved, "progress": pages.progress()}
        answer["decisions"] = [
            {"row": card.row, "decision": card.decision, "label": card.label}
            for card in pages.cards(sent.rows)
        ]
        if wanted is not None:
            answer["item"] = pages.item(next_row(session, wanted, sent.rows[-1]), wanted)
        return answer

    @app.post("/api/undo")
    def undo(sent: Undo) -> dict[str, Any]:
        check_stamp(session, sent)
        wanted = _view(sent.view)
        rows = session.undo(sent.undoes, sent.batch)
        answer: dict[str, Any] = {"undone": len(rows), "progress": pages.progress()}
        answer["decisions"] = [
            {"row": card.row, "decision": card.decision, "label": card.label}
            for card in pages.cards(rows[:5000])
        ]
        if rows and wanted is not None:
            answer["item"] = pages.item(rows[-1], wanted)
        return answer

    @app.post("/api/accept-above")
    def accept_above(sent: AcceptAbove) -> dict[str, Any]:
        check_stamp(session, sent)
        saved = session.accept_above(sent.threshold, sent.expected, sent.batch)
        return {"saved": saved, "progress": pages.progress()}


def check_stamp(session: Session, sent: Sent) -> None:
    """Row numbers mean nothing in another run."""
    if sent.stamp != session.catalogue.stamp:
        raise HTTPException(409, "The run has changed since this page was made: reload it.")


def next_row(session: Session, wanted: Filter, row: int) -> int | None:
    """After a decision: onward, and at the end back to what was passed over."""
    found = session.selector.step(wanted, session.person, row, 1)
    if found is None and wanted.decided == "no":
        rows = session.selector.rows(wanted, session.person)
        found = int(rows[0]) if len(rows) else None
    return found


def _view(sent: str | None) -> Filter | None:
    return None if sent is None else parse_filter(dict(parse_qsl(sent)))
