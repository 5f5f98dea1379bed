"""`csot review`: decide in the browser, on this machine."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from csot.cli.options import AllowOutside, AsJson

if TYPE_CHECKING:
    from csot.cli.terminal import Terminal
    from csot.review import ReviewServer
    from csot.review.domain.session import Session
    from csot.runs import Run


def review(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    reviewer: Annotated[
        str, typer.Option(metavar="NAME", help="Your name, under which decisions are saved.")
    ] = "reviewer",
    port: Annotated[
        int | None, typer.Option(help="Port; by default a free one.", min=0, max=65535)
    ] = None,
    audit: Annotated[
        int | None,
        typer.Option(metavar="ROWS", min=1, help="Open with an audit of this many rows."),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address to open.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Allow a --host that other machines can reach.")
    ] = False,
    same_data: Annotated[
        bool,
        typer.Option("--same-data", help="Keep the decisions; the data was only moved."),
    ] = False,
    allow_outside: AllowOutside = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the address.")] = False,
    as_json: AsJson = False,
) -> None:
    """Decide on the suggestions of RUN in the browser, on this machine; no network is used.

    Decisions are kept in RUN, and come back as verified.csv.

    Example: csot review run

    Example: csot review run --audit 100 --reviewer ana
    """
    from csot._core.errors import require
    from csot.cli.terminal import Terminal
    from csot.runs import Run

    with Terminal(quiet, as_json) as terminal:
        found = Run.open(run)  # what is wrong with the run comes before a missing package
        for package in ("fastapi", "uvicorn"):
            require(package, "review", "csot review")
        from csot.review import ReviewServer

        server = ReviewServer(
            found,
            reviewer=reviewer,
            host=host,
            port=port,
            allow_remote=allow_remote,
            same_data=same_data,
            audit=audit,
            allow_outside=allow_outside,
        )
        with suppress(KeyboardInterrupt):
            server.serve(
                lambda: _tell_address(server, found, allow_remote, terminal, as_json),
                browse=not no_browser,
            )
        terminal.say(f"Every decision is in {server.session.store.path}")
        _tell_audit(server.session, terminal)


def _tell_address(
    server: ReviewServer, run: Run, is_remote: bool, terminal: Terminal, as_json: bool
) -> None:
    session = server.session
    if run.has_images:
        terminal.say(f"Pictures are from {run.image_root}")
    terminal.say(
        f"{session.progress().left:,} of {len(session.catalogue):,} labels to look at, as "
        f"{session.reviewer}. Ctrl-C ends. Open:"
    )
    if is_remote:
        terminal.warn(
            "anyone who has this address can make decisions, and what is sent is not encrypted"
        )
    if as_json:
        facts = {"url": server.url, "n_left": session.progress().left}
        terminal.result({**facts, "decisions": str(session.store.path)})
    else:
        # By itself and at once: scripts read it from a pipe.
        print(server.url, flush=True)


def _tell_audit(session: Session, terminal: Terminal) -> None:
    """What the audit says so far, and the command that uses it."""
    from csot.review.domain.decision_exports import write_verified
    from csot.runs.source import clean_again

    plan = session.auditing.plan
    state = None if plan is None else session.auditing.state(plan, session.person)
    if state is None or state.result is None:
        return
    rate = state.result.noise_rate
    terminal.say(
        f"Audit: {state.done:,} of {state.planned:,} rows; {rate.value:.1%} of the labels are "
        f"wrong, 95 % interval {rate.low:.1%} to {rate.high:.1%}"
    )
    written = write_verified(session.catalogue, session.ledger.people)
    terminal.say(f"Next: {clean_again(session.catalogue.run, written)}")
