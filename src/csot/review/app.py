"""The application: addresses and what answers them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from csot.review.errors import add_error_pages
from csot.review.item import whole
from csot.review.pages import Pages
from csot.review.routes_audit import add_audit_routes
from csot.review.routes_decide import add_decide_routes
from csot.review.routes_export import add_export_routes
from csot.review.routes_files import add_file_routes
from csot.review.routes_numbers import add_number_routes
from csot.review.routes_rows import add_row_routes
from csot.review.session import Session


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
