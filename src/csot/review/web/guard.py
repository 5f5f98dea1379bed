"""Access control: every request is checked here before any page handles it.

The server is on the user's own machine, where any web page in the user's browser can reach it. So:

- the Host header must be ours: else the page of an attacker whose domain resolves to 127.0.0.1 (DNS
  rebinding) would count as the same origin;
- a secret is needed: once in the opening address, then in a cookie that no script can read and no
  other site's request carries;
- what another origin sends is refused, even from another port of this machine, which browsers
  count as the same site.
"""

from __future__ import annotations

import asyncio
import html
import ipaddress
import re
import secrets
import socket
from collections.abc import Iterator
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 2 * 2**20
DIGITS = 9
BODY_SECONDS = 20
"""Within which a request must be complete."""
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:[0-9]{1,5})?", re.ASCII)
"""Nothing but a name or an address, and a port."""
SINGLE = ("origin", "sec-fetch-site", "sec-fetch-mode", "content-type", "content-length")
"""Headers that browsers send once; if one comes twice, this guard and a later parser might each use
another value."""
POLICY = (
    "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Guard:
    """Middleware around the whole application."""

    def __init__(
        self,
        app: ASGIApp,
        token: str,
        cookie: str,
        host: str = "127.0.0.1",
        home: str = "/",
    ) -> None:
        self._app = app
        self._token = token
        self._cookie = cookie
        self._home = home
        self._remote = not is_loopback(host)
        self._names = {*LOOPBACK, host.lower()}
        if self._remote:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        answer = self._answer(scope)
        if answer is not None:
            await answer(scope, receive, _hardened(send))
            return
        await self._bounded(scope, receive, _hardened(send))

    def _answer(self, scope: Scope) -> Response | None:
        """A refusal or the entrance; None lets the request through."""
        headers = Headers(scope=scope)
        if not self._is_ours(headers.getlist("host")):
            return _refusal(421, "This address is not served here.")
        if not scope["query_string"].isascii():
            return _refusal(400, "The address holds characters that must be encoded.")
        method = scope["method"]
        if method not in ("GET", "HEAD", "POST"):
            return _refusal(405, "Only GET and POST are answered.")
        if any(len(headers.getlist(name)) > 1 for name in SINGLE):
            return _refusal(403, "A header that must be single is there twice.")
        if not _is_same_origin(headers, method):
            return _refusal(403, "Requests from other sites are refused.")
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and method == "GET" and given and self._is_token(given):
            return self._entrance(headers)
        if not any(map(self._is_token, _cookies(headers, self._cookie))):
            return _refusal(
                401, "Open the address that csot review printed; a new start prints a new one."
            )
        if method == "POST" and headers.get("content-type", "").partition(";")[0].strip() != (
            "application/json"
        ):
            return _refusal(415, "Send application/json.")
        return None

    def _entrance(self, headers: Headers) -> Response:
        """Trade the token for a cookie, and drop it from the address."""
        # A link on another site starts a chain of redirects that a strict cookie does not join;
        # a page of our own that moves on does.
        response: Response
        if headers.get("sec-fetch-site") == "cross-site":
            response = HTMLResponse(
                f'<!doctype html><meta http-equiv="refresh" content="0;url={self._home}">'
                f'<a href="{self._home}">Go on to the review</a>'
            )
        else:
            response = RedirectResponse(self._home, status_code=303)
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
        response.headers["Cache-Control"] = "no-store"
        return response

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode("utf-8", "replace"), self._token.encode())

    def _is_ours(self, hosts: list[str]) -> bool:
        name = _host_name(hosts[0]) if len(hosts) == 1 else ""
        # No name server can point an address elsewhere, so a remote server answers to any.
        return name in self._names or (self._remote and _is_address(name))

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stop reading a body that is too long, whatever it says about its length."""
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdecimal() or len(length) > DIGITS or int(length) > MAX_BODY:
            await _too_long()(scope, receive, send)
            return
        body = b""
        end = asyncio.get_running_loop().time() + BODY_SECONDS
        while True:
            left = end - asyncio.get_running_loop().time()
            try:
                message = await asyncio.wait_for(receive(), left)
            except asyncio.TimeoutError:
                slow = _refusal(408, f"The request was not complete after {BODY_SECONDS} seconds.")
                slow.headers["Connection"] = "close"
                await slow(scope, receive, send)
                return
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            if len(body) > MAX_BODY:
                await _too_long()(scope, receive, send)
                return
            if not message.get("more_body", False):
                break
        whole: Iterator[Message] = iter([{"type": "http.request", "body": body}])

        async def replay() -> Message:
            return next(whole, None) or await receive()

        await self._app(scope, replay, send)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _hardened(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sent


def _is_same_origin(headers: Headers, method: str) -> bool:
    site = headers.get("sec-fetch-site", "none")
    if method == "POST":
        origin = headers.get("origin")
        own = origin is None or origin == f"http://{headers['host']}"
        return own and site in ("same-origin", "none")
    navigation = headers.get("sec-fetch-mode") == "navigate"
    return site in ("same-origin", "none") or (navigation and not headers.get("origin"))


def _cookies(headers: Headers, name: str) -> list[str]:
    """Parse cookies; the standard parser stops at an odd cookie of another local server."""
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return [value for key, _, value in pairs if key == name]


def _host_name(host: str) -> str:
    """Strip the port and the brackets of IPv6; empty if `host` is not a valid host."""
    found = HOST.fullmatch(host.lower())
    return found[1].strip("[]") if found else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _too_long() -> Response:
    return _refusal(413, f"A request may have at most {MAX_BODY} bytes.")


def _refusal(status: int, reason: str) -> Response:
    return HTMLResponse(
        f"<!doctype html><title>csot review</title><p>{html.escape(reason)}</p>", status
    )
