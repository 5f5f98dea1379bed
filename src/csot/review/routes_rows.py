"""Rows to look at: one by one, and in a grid. GET only; nothing here changes anything."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from csot.review.pages import Pages
from csot.review.select import Filter, parse_filter
from csot.review.session import Session
from csot.review.summaries import confusions

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
