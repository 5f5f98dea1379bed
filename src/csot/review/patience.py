"""Connections that say nothing, or take for ever to say it, are closed."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 15
"""From the first byte, or from the connection, to the end of the headers."""
KEEP_ALIVE_SECONDS = 30
CONNECTIONS = 64
"""At the same time; a browser opens six."""
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
        """Count while no request is being answered; more bytes do not start the count anew."""
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
