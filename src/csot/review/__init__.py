"""Deciding on labels in the browser, over any run. Knows only `csot.runs`."""

from csot.review.web.server import ReviewServer as ReviewServer
