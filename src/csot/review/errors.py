"""Errors as pages for people, and as JSON for scripts."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from csot.review.pages import Pages

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
