"""The application: addresses and what answers them; errors as pages and as JSON."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from csot.review.domain.item import whole
from csot.review.domain.session import Session
from csot.review.web.pages import Pages
from csot.review.web.pictures import add_file_routes
from csot.review.web.routes_audit import add_audit_routes
from csot.review.web.routes_browse import add_number_routes, add_row_routes
from csot.review.web.routes_decide import add_decide_routes, add_export_routes

Handler = Callable[[Request, Exception], Awaitable[Response]]


def add_error_pages(app: FastAPI, pages: Pages) -> None:
    """What a user or a page did wrong is said in a sentence; the rest is left to the server."""

    def handler(status: int, words: Callable[[Exception], str]) -> Handler:
        async def handle(request: Request, error: Exception) -> Response:
            code = error.status_code if isinstance(error, HTTPException) else status
            if str(request.scope["path"]).startswith("/api/"):
                return JSONResponse({"error": words(error)}, code)
            return HTMLResponse(pages.page("error", reason=words(error)), code)

        return handle

    app.add_exception_handler(ValueError, handler(400, str))
    app.add_exception_handler(RequestValidationError, handler(422, _malformed))
    app.add_exception_handler(HTTPException, handler(500, _detail))
    for kind in (sqlite3.Error, OSError):
        app.add_exception_handler(kind, handler(500, lambda error: f"Nothing was saved: {error}"))


def _malformed(error: Exception) -> str:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def _detail(error: Exception) -> str:
    assert isinstance(error, HTTPException)
    return str(error.detail)


def make_app(session: Session) -> FastAPI:
    """Without the guard, which the server puts around it."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    pages = Pages(session)
    add_error_pages(app, pages)
    for add in (
        add_number_routes,
        add_row_routes,
        add_file_routes,
        add_decide_routes,
        add_audit_routes,
        add_export_routes,
    ):
        add(app, session, pages)

    @app.get("/api/classes")
    def classes() -> dict[str, Any]:
        return {"names": [whole(name) for name in session.catalogue.names]}

    return app
