"""HTML from templates. Everything that comes from data is escaped by the template engine."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from csot._core.text import breakable
from csot.review.domain.filters import Filter
from csot.review.domain.session import Session
from csot.review.domain.shown_row import chance, make_card, make_item, percent, points, whole

STATIC = {
    "review.css": "text/css; charset=utf-8",
    "common.js": "text/javascript; charset=utf-8",
    "one.js": "text/javascript; charset=utf-8",
    "grid.js": "text/javascript; charset=utf-8",
    "precision.js": "text/javascript; charset=utf-8",
    "audit.js": "text/javascript; charset=utf-8",
    "export.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
VIEWS = (
    ("", "Overview"),
    ("one", "One by one"),
    ("grid", "Grid"),
    ("audit", "Audit"),
    ("precision", "Precision"),
    ("reviewers", "Reviewers"),
    ("export", "Export"),
)
STATUS_WORDS: dict[str, str] = {
    "flagged": "To review",
    "any": "All rows",
    "changed": "With a change",
    "unchanged": "To review, no other label suggested",
    "clean": "Clean",
    "corrected": "Corrected",
    "uncertain": "Uncertain",
    "unlabelled": "Without a label",
    "verified": "Verified before",
    "conflict": "Conflict: same sample, two labels",
    "duplicate": "With a near-duplicate",
    "stranger": "No class fits",
    "rare": "Of a very rare class",
}
DECIDED_WORDS = {
    "no": "Undecided",
    "any": "Decided or not",
    "yes": "Decided",
    "accept": "Accepted",
    "keep": "Kept",
    "choose": "Other class",
    "unsure": "Unsure",
    "discard": "Discarded",
}
ORDER_WORDS = {
    "score": "Worst first",
    "confidence": "Surest first",
    "doubt": "Least sure first",
    "random": "Random",
    "given": "By class pair",
    "group": "Near-duplicates together",
}
AHEAD = 4
"""Pictures that the browser fetches in advance."""


class Pages:
    """Templates, and what all of them know."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.static = _static()
        self._known = {
            "stamp": session.catalogue.stamp,
            "title": session.catalogue.title,
            "reviewer": session.reviewer,
        }

    def render(self, template: str, **values: Any) -> str:
        """A lone surrogate, of a file name that is not Unicode, must not break the page."""
        return whole(_environment().get_template(template).render({**self._known, **values}))

    def page(self, name: str, **values: Any) -> str:
        """The template of that name; what follows an underscore is a page of the same view."""
        progress = self._session.progress()
        view = name.partition("_")[0]
        return self.render(f"{name}.html", view=view, progress=progress, **values)

    def progress(self) -> str:
        return self.render("_progress.html", progress=self._session.progress())

    def item(self, row: int | None, wanted: Filter) -> dict[str, Any]:
        """One row as the page swaps it in; None is the end of the list."""
        session = self._session
        if row is None:
            html = self.render("_nothing.html", filter=wanted)
            return {"row": None, "html": html, "ahead": [], "query": wanted.query()}
        ahead = session.selector.ahead(wanted, session.person, row, AHEAD)
        position = session.selector.position(wanted, session.person, row)
        html = self.render("_item.html", item=make_item(session, row), position=position)
        return {
            "row": row,
            "html": html,
            "ahead": [other for other in ahead if session.samples.image(other)],
            "query": wanted.query(row=row),
        }

    def cards(self, rows: list[int]) -> list[Any]:
        return [make_card(self._session, row) for row in rows]

    def filter_values(self, wanted: Filter) -> dict[str, Any]:
        """Values of the filter form."""
        return {"filter": wanted, "names": self._session.catalogue.names}


@cache
def _environment() -> Environment:
    """Compiled templates are shared by all sessions of the process."""
    environment = Environment(
        loader=PackageLoader("csot.review"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count"] = lambda value: f"{value:,.0f}"
    environment.filters["percent"] = percent
    environment.filters["chance"] = chance
    environment.filters["points"] = points
    environment.filters["breakable"] = breakable
    environment.globals.update(
        version=_version(_static()),
        views=VIEWS,
        status_words=STATUS_WORDS,
        decided_words=DECIDED_WORDS,
        order_words=ORDER_WORDS,
    )
    return environment


@cache
def _static() -> dict[str, bytes]:
    folder = files("csot.review") / "static"
    return {name: (folder / name).read_bytes() for name in STATIC}


def _version(static: dict[str, bytes]) -> str:
    """Part of the addresses of static files, so that browsers may keep them."""
    return hashlib.sha256(b"".join(static.values())).hexdigest()[:12]
