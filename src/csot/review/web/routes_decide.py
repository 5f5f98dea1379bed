"""What changes anything: decide, undo, accept all above a confidence; and files to download."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException

from csot.review.domain import export
from csot.review.domain.filters import Filter, parse_filter
from csot.review.domain.ledger import Person
from csot.review.domain.session import Session
from csot.review.web.pages import Pages
from csot.review.web.requests import AcceptAbove, Decide, Export, Sent, Undo
from csot.review.web.routes_browse import check_row
from csot.runs.rerun import clean_again


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
        label = sent.label if sent.name is None else session.new_class(sent.name)
        saved = session.decide(sent.rows, sent.action, label, sent.way, sent.batch)
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


DISAGREEMENTS = "disagreements.csv"
KINDS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def add_export_routes(app: FastAPI, session: Session, pages: Pages) -> None:
    """Files to download, or written into the run."""
    catalogue = session.catalogue

    def people() -> dict[str, Person]:
        session.refresh()
        return {name: session.ledger.people[name] for name in session.ledger.reviewers()}

    @app.get("/export")
    def page() -> HTMLResponse:
        all_people = people()
        found = export.outcome(catalogue, all_people, seen_only=False)
        seen = export.outcome(catalogue, all_people, seen_only=True)
        _, rows, odd = export.verified_csv(catalogue, found)
        values = {
            "n_rows": rows,
            "n_odd": odd,
            "n_seen": int((seen.label >= 0).sum()) - odd,
            "n_carried": int(found.carried.sum()),
            "n_disagree": int(found.disagree.sum()),
            "n_discarded": int(found.discarded.sum()),
            "n_reviewers": len(all_people),
            "command": clean_again(catalogue.run, catalogue.run.path / export.VERIFIED_FILE),
            "votes_command": clean_again(
                catalogue.run, catalogue.run.path / export.VOTES_FILE, "--votes"
            ),
            "folder": str(catalogue.run.path),
        }
        return HTMLResponse(pages.page("export", **values))

    @app.get("/download/{name}")
    def download(name: str, seen: int = 0) -> Response:
        all_people = people()
        found = export.outcome(catalogue, all_people, bool(seen))
        considered = export.only_seen(all_people) if seen else all_people
        if name == export.VERIFIED_FILE:
            text = export.verified_csv(catalogue, found)[0]
        elif name == export.REVIEWED_FILE:
            text = export.reviewed_csv(catalogue, found)
        elif name == export.STUDIO_FILE:
            text = export.label_studio_json(catalogue, considered, session.pictures)
        elif name == export.VOTES_FILE:
            text = export.votes_csv(catalogue, considered)
        elif name == DISAGREEMENTS:
            text = export.disagreements_csv(catalogue, all_people)
        else:
            raise HTTPException(404, "There is no such file.")
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        content = text.encode("utf-8", "surrogateescape")
        return Response(content, media_type=KINDS[name.rpartition(".")[2]], headers=headers)

    @app.post("/api/recompute")
    def recompute(sent: Sent) -> dict[str, Any]:
        """Write verified.csv, and say which command cleans the data again with it."""
        check_stamp(session, sent)
        path = export.write_verified(catalogue, people())
        found = export.outcome(catalogue, people(), seen_only=False)
        return {
            "command": clean_again(catalogue.run, path),
            "path": str(path),
            "rows": int((found.label >= 0).sum()),
        }

    @app.post("/api/export")
    def write(sent: Export) -> dict[str, Any]:
        check_stamp(session, sent)
        written = export.write_exports(catalogue, people(), sent.seen_only, session.pictures)
        return {"written": [str(path) for path in written.values()]}
