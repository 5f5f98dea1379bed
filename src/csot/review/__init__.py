"""Deciding on labels in the browser, over any run. Depends only on `csot.runs` and `csot.audit`.

It writes into the folder of the run and nowhere else: `decisions.sqlite` (every decision, as it
is made), `audit.json` (when an audit is started), and on request or after an audit
`verified.csv`, `reviewed.csv`, `reviewed_label_studio.json` and `decisions.csv`.
"""

from csot.review.web.server import ReviewServer as ReviewServer
