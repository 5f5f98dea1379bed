"""The server: its addresses and errors, a socket, time limits, and a clean shutdown."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import socket
import sqlite3
import threading
import webbrowser
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.h11_impl import H11Protocol

from csot.review.domain.session import Session
from csot.review.domain.shown_row import whole
from csot.review.web.guard import Guard, is_loopback
from csot.review.web.pages import Pages
from csot.review.web.routes_audit import add_audit_decisions, add_audit_routes
from csot.review.web.routes_browse import add_number_routes, add_row_routes
from csot.review.web.routes_decide import add_decide_routes, add_export_routes
from csot.review.web.routes_files import add_file_routes
from csot.runs import Run

# The application: addresses and what answers them; errors as pages and as JSON.

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


def make_app(session: Session) -> FastAPI:
    """Make the application without the guard, which the server adds."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    pages = Pages(session)
    add_error_pages(app, pages)
    for add in (
        add_number_routes,
        add_row_routes,
        add_file_routes,
        add_decide_routes,
        add_audit_routes,
        add_audit_decisions,
        add_export_routes,
    ):
        add(app, session, pages)

    @app.get("/api/classes")
    def classes() -> dict[str, Any]:
        return {"names": [whole(name) for name in session.catalogue.names]}

    return app


REQUEST_SECONDS = 15
"""From the first byte, or from the connection, to the end of the headers."""
KEEP_ALIVE_SECONDS = 30
CONNECTIONS = 64
"""Most connections at the same time; a browser opens six."""
HEADER_BYTES = 32 * 1024


class PatientProtocol(H11Protocol):
    """uvicorn's own, with a limit on the time between requests.

    Its limit for idle connections ends with the first byte of a request; from then on, and before
    the first request, this one counts. Bodies of requests are timed by the guard.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Count while no request is being answered; more bytes do not restart the count."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering:
            self._stop()
        elif self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


HOST = "127.0.0.1"
PORT = 8470
"""Port tried first by default, so that the address usually stays the same."""


class ReviewServer:
    """A session on a port. The constructor binds, so that what cannot work fails at once."""

    def __init__(
        self,
        run: Run,
        *,
        reviewer: str,
        host: str = HOST,
        port: int | None = None,
        allow_remote: bool = False,
        same_data: bool = False,
        audit: int | None = None,
        allow_outside: bool = False,
    ) -> None:
        if not is_loopback(host) and not allow_remote:
            raise ValueError(
                f"`host` {host} lets other machines in, over a connection that is not encrypted: "
                "add `allow_remote` if you mean it, or tunnel by ssh -L and leave `host` out"
            )
        self.session = Session(run, reviewer, same_data, allow_outside)
        try:
            if audit is not None:
                self.session.auditing.start(audit)
            self._socket = _bind(host, port)
        except BaseException:
            self.session.close()
            raise
        self.port = int(self._socket.getsockname()[1])
        self.token = secrets.token_urlsafe(32)
        # Browsers share cookies between the ports of a machine: two reviews need two names.
        home = "/" if audit is None else "/audit"
        app = Guard(make_app(self.session), self.token, f"csot_review_{self.port}", host, home)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,  # it would write the token down
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=3,
            http=PatientProtocol,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            limit_concurrency=CONNECTIONS,
            h11_max_incomplete_event_size=HEADER_BYTES,
        )
        self._server = _Announcing(config)
        name = socket.gethostname() if host in ("0.0.0.0", "::") else host
        name = f"[{name}]" if ":" in name else name
        self.url = f"http://{name}:{self.port}/?token={self.token}"

    def serve(self, ready: Callable[[], None] = lambda: None, browse: bool = False) -> None:
        """Until a signal ends it. `ready` is called once requests are answered."""

        def announce() -> None:
            ready()
            threading.Thread(target=self.session.samples.load_early, daemon=True).start()
            if browse:
                threading.Thread(target=webbrowser.open, args=(self.url,), daemon=True).start()

        self._server.announce = announce
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()
            self.session.close()

    def stop(self) -> None:
        """Stop the server from another thread."""
        self._server.should_exit = True


class _Announcing(uvicorn.Server):
    announce: Callable[[], None] = staticmethod(lambda: None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if not self.should_exit:
            self.announce()


def _bind(host: str, port: int | None) -> socket.socket:
    """Open a listening socket; on any free port if none was given and the default is taken."""
    for wanted in (PORT, 0) if port is None else (port,):
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host, wanted, type=socket.SOCK_STREAM
            )[0]
        except (socket.gaierror, OverflowError) as error:
            raise ValueError(f"`host` {host} `port` {wanted} is not an address: {error}") from error
        made = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":  # elsewhere it would let two servers share the port
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(128)
        except OSError as error:
            made.close()
            if port is None and wanted != 0 and error.errno == errno.EADDRINUSE:
                continue
            raise OSError(
                f"cannot listen on {host}:{wanted} ({error.strerror}): choose another `port`, or "
                "leave it out to take a free one"
            ) from error
        return made
    raise AssertionError("port 0 is never taken")
