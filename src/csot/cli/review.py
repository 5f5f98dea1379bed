"""`csot review`: decide in the browser, on this machine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from csot._core.errors import require
from csot.cli.terminal import Terminal

if TYPE_CHECKING:
    from csot.review.domain.session import Session


@dataclass(frozen=True)
class ReviewOptions:
    """What the user asked for."""

    run: Path
    reviewer: str = "reviewer"
    port: int | None = None
    host: str = "127.0.0.1"
    allow_remote: bool = False
    same_data: bool = False
    browser: bool = True
    audit: int | None = None
    """Rows of the audit to open with."""
    allow_outside: bool = False


def run_review(options: ReviewOptions, terminal: Terminal) -> None:
    """Serve until Ctrl-C."""
    from csot.runs import Run

    run = Run.open(options.run)  # what is wrong with the run comes before a missing package
    for package in ("fastapi", "uvicorn"):
        require(package, "review", "csot review")
    from csot.review import ReviewServer

    server = ReviewServer(
        run,
        reviewer=options.reviewer,
        host=options.host,
        port=options.port,
        allow_remote=options.allow_remote,
        same_data=options.same_data,
        audit=options.audit,
        allow_outside=options.allow_outside,
    )
    progress = server.session.progress()
    where = server.session.store.path

    def ready() -> None:
        terminal.say(
            Text(
                f"{progress.left:,} of {len(server.session.catalogue):,} labels to look at, as "
                f"{server.session.reviewer}. Ctrl-C ends. Open:"
            )
        )
        if run.has_images:
            terminal.say(Text(f"Pictures are from {run.image_root}"))
        if options.allow_remote:
            terminal.warn("whoever has this address can decide, and what is sent is not encrypted")
        # By itself and at once: scripts read it from a pipe.
        print(server.url, flush=True)

    with suppress(KeyboardInterrupt):
        server.serve(ready, browse=options.browser)
    terminal.say(Text(f"Every decision is in {where}"))
    _tell_audit(server.session, terminal)


def _tell_audit(session: Session, terminal: Terminal) -> None:
    """What the audit says so far, and the command that uses it."""
    from csot.review.domain.export import write_verified
    from csot.runs.rerun import clean_again

    plan = session.auditing.plan
    state = None if plan is None else session.auditing.state(plan, session.person)
    if state is None or state.result is None:
        return
    rate = state.result.noise_rate
    terminal.say(
        Text(
            f"Audit: {state.done:,} of {state.planned:,} rows; {rate.value:.1%} of the labels are "
            f"wrong, 95 % interval {rate.low:.1%} to {rate.high:.1%}"
        )
    )
    written = write_verified(session.catalogue, session.ledger.people)
    terminal.say(Text(f"Next: {clean_again(session.catalogue.run, written)}"))
