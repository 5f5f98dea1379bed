"""Pages that add up: overview, precision, reviewers. GET only; nothing here changes anything."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from csot.review.pages import Pages
from csot.review.precision import bands, forecast
from csot.review.session import Session
from csot.review.summaries import agreement_values, confusions, measured

THRESHOLDS = (0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)


def add_number_routes(app: FastAPI, session: Session, pages: Pages) -> None:
    catalogue = session.catalogue

    @app.get("/")
    def overview() -> HTMLResponse:
        session.refresh()
        values = {
            "confusions": confusions(session),
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
