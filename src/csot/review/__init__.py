"""Deciding on labels in the browser, over any run. Depends only on `csot.runs` and `csot.audit`.

It writes into the folder of the run and nowhere else: `decisions.sqlite` (every decision, as it
is made), `audit.json` (when an audit is started), and on request or after an audit
`verified.csv`, `reviewed.csv`, `reviewed_label_studio.json` and `decisions.csv`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from csot.review.web.server import ReviewServer

__all__ = ["ReviewServer"]


def __getattr__(name: str) -> object:
    """Load the server on access: reading decisions needs neither it nor FastAPI."""
    if name != "ReviewServer":
        raise AttributeError(f"module 'csot.review' has no attribute {name!r}")
    from csot.review.web.server import ReviewServer

    return ReviewServer
