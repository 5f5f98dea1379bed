"""The way out: files to download, or written into the run."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException

from csot.records.again import clean_again
from csot.review import export
from csot.review.ledger import Person
from csot.review.pages import Pages
from csot.review.requests import Export
from csot.review.routes_decide import check_stamp
from csot.review.session import Session

DISAGREEMENTS = "disagreements.csv"
KINDS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def add_export_routes(app: FastAPI, session: Session, pages: Pages) -> None:
    catalogue = session.catalogue

    def people() -> dict[str, Person]:
        session.refresh()
        return {name: session.ledger.people[name] for name in session.ledger.reviewers()}

    @app.get("/export")
    def page() -> HTMLResponse:
        everyone = people()
        found = export.outcome(catalogue, everyone, seen_only=False)
        seen = export.outcome(catalogue, everyone, seen_only=True)
        _, rows, odd = export.verified_csv(catalogue, found)
        values = {
            "n_rows": rows,
            "n_odd": odd,
            "n_seen": int((seen.label >= 0).sum()) - odd,
            "n_carried": int(found.carried.sum()),
            "n_disagree": int(found.disagree.sum()),
            "n_reviewers": len(everyone),
            "command": clean_again(catalogue.run, catalogue.run.path / export.VERIFIED_FILE),
            "votes_command": clean_again(
                catalogue.run, catalogue.run.path / export.VOTES_FILE, "--votes"
            ),
            "folder": str(catalogue.run.path),
        }
        return HTMLResponse(pages.page("export", **values))

    @app.get("/download/{name}")
    def download(name: str, seen: int = 0) -> Response:
        everyone = people()
        found = export.outcome(catalogue, everyone, bool(seen))
        considered = export.looked_at(everyone) if seen else everyone
        if name == export.VERIFIED_FILE:
            text = export.verified_csv(catalogue, found)[0]
        elif name == export.REVIEWED_FILE:
            text = export.reviewed_csv(catalogue, found)
        elif name == export.STUDIO_FILE:
            text = export.label_studio_json(catalogue, considered, session.pictures)
        elif name == export.VOTES_FILE:
            text = export.votes_csv(catalogue, considered)
        elif name == DISAGREEMENTS:
            text = export.disagreements_csv(catalogue, everyone)
        else:
            raise HTTPException(404, "There is no such file.")
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        content = text.encode("utf-8", "surrogateescape")
        return Response(content, media_type=KINDS[name.rpartition(".")[2]], headers=headers)

    @app.post("/api/export")
    def write(sent: Export) -> dict[str, Any]:
        check_stamp(session, sent)
        written = export.write_exports(catalogue, people(), sent.seen_only, session.pictures)
        return {"written": [str(path) for path in written.values()]}
