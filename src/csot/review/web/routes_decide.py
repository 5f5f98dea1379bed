"""Routes that change something: decide, undo, accept all above a confidence; and exports."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from csot.review.domain import decision_exports
from csot.review.domain.decision_log import Action, Way
from csot.review.domain.filters import Filter, parse_filter
from csot.review.domain.ledger import Person
from csot.review.domain.run_catalogue import Catalogue
from csot.review.domain.session import Session
from csot.review.web.pages import Pages
from csot.review.web.routes_browse import check_row, confusions
from csot.runs.source import clean_again

# What pages send, bounded and checked.

MAX_ROWS = 5000
Batch = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{8,64}$")]
"""Made by the page, so that a request sent twice counts once."""
Row = Annotated[int, Field(ge=0, lt=2**31)]


class Sent(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    stamp: Annotated[str, Field(max_length=64)]
    """Stamp of the run that the page was made from."""
    batch: Batch


class Decide(Sent):
    rows: Annotated[list[Row], Field(min_length=1, max_length=MAX_ROWS)]
    action: Action
    way: Way
    label: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    """The number of the class, for `choose`."""
    name: Annotated[str, Field(max_length=200)] | None = None
    """The name of a class that is not in the list yet, instead of its number."""
    view: Annotated[str, Field(max_length=500)] | None = None
    """The filter, as in the address: then the next row comes with the answer. The grid sends
    none, and gets what is left of each class pair."""


class Undo(Sent):
    undoes: Batch | None = None
    """A batch of this page; without it, the reviewer's last."""
    view: Annotated[str, Field(max_length=500)] | None = None


class AcceptAbove(Sent):
    threshold: Annotated[float, Field(ge=0, le=1)]
    expected: Annotated[int, Field(ge=1)]
    """How many rows the page said."""


class StartAudit(Sent):
    rows: Annotated[int, Field(ge=1, le=MAX_ROWS)]


class Export(Sent):
    seen_only: bool = False


def add_decide_routes(app: FastAPI, session: Session, pages: Pages) -> None:
    """POST only. An answer means that the decision is on the disk."""

    @app.post("/api/decide")
    def decide(sent: Decide) -> dict[str, Any]:
        check_stamp(session, sent)
        for row in sent.rows:
            check_row(session, row)
        if sent.way in ("rule", "audit"):
            raise ValueError(f"way={sent.way} has a route of its own")
        wanted = _view(sent.view)  # before anything is saved: an error means that nothing was
        label = sent.label if sent.name is None else session.new_class(sent.name)
        saved = session.decide(sent.rows, sent.action, label, sent.way, sent.batch)
        answer: dict[str, Any] = {"saved": saved, "progress": pages.progress()}
        answer["decisions"] = [
            {"row": card.row, "decision": card.decision, "label": card.label}
            for card in pages.cards(sent.rows)
        ]
        if wanted is None:
            answer["pairs_left"] = pairs_left(session)
        else:
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
        if wanted is None:
            answer["pairs_left"] = pairs_left(session)
        elif rows:
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


def pairs_left(session: Session) -> dict[str, int]:
    """What is left of each class pair, by the filter for it."""
    return {pair["query"]: pair["left"] for pair in confusions(session)}


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
        return HTMLResponse(pages.page("export", **_export_values(catalogue, people())))

    @app.get("/download/{name}")
    def download(name: str, seen: int = 0) -> Response:
        text = _exported(name, session, people(), seen_only=bool(seen))
        if text is None:
            raise HTTPException(404, "There is no such file.")
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        content = text.encode("utf-8", "surrogateescape")
        return Response(content, media_type=KINDS[name.rpartition(".")[2]], headers=headers)

    @app.post("/api/next-run")
    def next_run(sent: Sent) -> dict[str, Any]:
        """Write verified.csv, and say which command cleans the data again with it."""
        check_stamp(session, sent)
        path = decision_exports.write_verified(catalogue, people())
        found = decision_exports.outcome(catalogue, people(), seen_only=False)
        return {
            "command": clean_again(catalogue.run, path),
            "path": str(path),
            "rows": int((found.label >= 0).sum()),
        }

    @app.post("/api/export")
    def write(sent: Export) -> dict[str, Any]:
        check_stamp(session, sent)
        written = decision_exports.write_exports(
            catalogue, people(), sent.seen_only, session.pictures
        )
        return {"written": [str(path) for path in written.values()]}


def _export_values(catalogue: Catalogue, people: dict[str, Person]) -> dict[str, Any]:
    """What the export page says: counts, and the commands that clean the data again."""
    found = decision_exports.outcome(catalogue, people, seen_only=False)
    seen = decision_exports.outcome(catalogue, people, seen_only=True)
    _, rows, odd = decision_exports.verified_csv(catalogue, found)
    run = catalogue.run
    return {
        "n_rows": rows,
        "n_odd": odd,
        "n_seen": int((seen.label >= 0).sum()) - odd,
        "n_carried": int(found.carried.sum()),
        "n_disagree": int(found.disagree.sum()),
        "n_discarded": int(found.discarded.sum()),
        "n_reviewers": len(people),
        "command": clean_again(run, run.path / decision_exports.VERIFIED_FILE),
        "votes_command": clean_again(run, run.path / decision_exports.VOTES_FILE, "--votes"),
        "folder": str(run.path),
    }


def _exported(
    name: str, session: Session, people: dict[str, Person], *, seen_only: bool
) -> str | None:
    """The text of the file called `name`; None if there is no such file."""
    catalogue = session.catalogue
    found = decision_exports.outcome(catalogue, people, seen_only)
    considered = decision_exports.only_seen(people) if seen_only else people
    if name == decision_exports.VERIFIED_FILE:
        return decision_exports.verified_csv(catalogue, found)[0]
    if name == decision_exports.REVIEWED_FILE:
        return decision_exports.reviewed_csv(catalogue, found)
    if name == decision_exports.STUDIO_FILE:
        return decision_exports.label_studio_json(catalogue, considered, session.pictures)
    if name == decision_exports.VOTES_FILE:
        return decision_exports.votes_csv(catalogue, considered)
    if name == DISAGREEMENTS:
        return decision_exports.disagreements_csv(catalogue, people)
    return None
