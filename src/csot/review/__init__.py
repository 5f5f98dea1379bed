"""Deciding on labels in the browser, over any run. Knows only `csot.records`."""

from csot.review.server import ReviewServer as ReviewServer
