"""The audit: rows one by one without a suggestion, and what they say about all labels."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from csot.audit import AuditPlan
from csot.review.domain.decision_exports import VERIFIED_FILE, write_verified
from csot.review.domain.session import Session
from csot.review.domain.shown_row import make_blind_item
from csot.review.web.pages import AHEAD, Pages
from csot.review.web.routes_browse import check_row
from csot.review.web.routes_decide import Decide, StartAudit, Undo, check_stamp
from csot.runs.source import clean_again


def add_audit_routes(app: FastAPI, session: Session, pages: Pages) -> None:
    """Pages to read: GET only; nothing changes."""
    auditing, run = session.auditing, session.catalogue.run

    @app.get("/audit")
    def page(row: int | None = None) -> HTMLResponse:
        session.refresh()
        plan = auditing.plan
        if plan is None:
            values = {"offers": auditing.first_offers(), "n_rows": len(session.catalogue)}
            return HTMLResponse(pages.page("audit_start", **values))
        if row is None:
            row = auditing.next_row(plan, session.person)
        else:
            check_row(session, row)
        item = _item(session, pages, plan, row)
        state = auditing.state(plan, session.person)
        return HTMLResponse(pages.page("audit", item=item, query="", audit=state))

    @app.get("/audit/result")
    def result() -> HTMLResponse:
        session.refresh()
        values = {
            "audit": auditing.state(_planned(session), session.person),
            "command": clean_again(run, run.path / VERIFIED_FILE),
        }
        return HTMLResponse(pages.page("audit_result", **values))

    @app.get("/api/audit/step")
    def step(row: int, by: int) -> dict[str, Any]:
        session.refresh()
        check_row(session, row)
        plan = _planned(session)
        if by < 0:
            found = auditing.previous_row(plan, row)
        else:
            found = auditing.next_row(plan, session.person, row)
        return {"item": None if found in (None, row) else _item(session, pages, plan, found)}


def add_audit_decisions(app: FastAPI, session: Session, pages: Pages) -> None:
    """Start an audit, decide, undo. POST only. An answer means that it is on the disk."""
    auditing = session.auditing

    @app.post("/api/audit/start")
    def start(sent: StartAudit) -> dict[str, Any]:
        check_stamp(session, sent)
        auditing.start(sent.rows)
        return {"planned": len(_planned(session))}

    @app.post("/api/audit/decide")
    def decide(sent: Decide) -> dict[str, Any]:
        check_stamp(session, sent)
        plan = _planned(session)
        if sent.way != "audit" or sent.action not in ("choose", "unsure") or len(sent.rows) != 1:
            raise ValueError("an audit takes way=audit, one row, and the action choose or unsure")
        (row,) = sent.rows
        if row not in plan.rows:
            raise ValueError(f"row {row} is not in the audit")
        number = sent.label if sent.name is None else session.new_class(sent.name)
        saved = session.decide(sent.rows, sent.action, number, "audit", sent.batch)
        following = auditing.next_row(plan, session.person, row)
        if following is None:  # so that the command on the next page works as it is
            write_verified(session.catalogue, session.ledger.people)
        label = session.catalogue.name(int(session.person.label[row]))
        return {
            "saved": saved,
            "decisions": [{"row": row, "decision": "saved", "label": label}],
            "progress": _progress(session, pages, plan),
            "item": _item(session, pages, plan, following),
        }

    @app.post("/api/audit/undo")
    def undo(sent: Undo) -> dict[str, Any]:
        check_stamp(session, sent)
        plan = _planned(session)
        rows = session.undo(sent.undoes, sent.batch)
        progress = _progress(session, pages, plan)
        answer: dict[str, Any] = {"undone": len(rows), "progress": progress}
        back = [row for row in rows if row in plan.rows]
        if back:
            answer["item"] = _item(session, pages, plan, back[-1])
        return answer


def _planned(session: Session) -> AuditPlan:
    plan = session.auditing.plan
    if plan is None:
        raise HTTPException(409, "There is no audit of this run yet: start one.")
    return plan


def _progress(session: Session, pages: Pages, plan: AuditPlan) -> str:
    state = session.auditing.state(plan, session.person)
    return pages.render("_audit_progress.html", audit=state)


def _item(session: Session, pages: Pages, plan: AuditPlan, row: int | None) -> dict[str, Any]:
    """The item that the page swaps in; a row of None is the end of the list."""
    if row is None:
        html = pages.render("_audit_done.html", planned=len(plan))
        return {"row": None, "html": html, "ahead": [], "query": ""}
    order = plan.rows.tolist()
    place = order.index(row) if row in order else -1
    position = (place + 1, len(order)) if place >= 0 else None
    html = pages.render("_audit_item.html", item=make_blind_item(session, row), position=position)
    ahead = order[place + 1 : place + 1 + AHEAD]
    ahead = [other for other in ahead if session.samples.image(other)]
    return {"row": row, "html": html, "ahead": ahead, "query": f"row={row}"}
