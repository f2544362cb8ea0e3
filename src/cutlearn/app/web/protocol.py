"""Connections that do not wait for ever: uvicorn's HTTP protocol with two clocks.

uvicorn has no bound on how long a request's head may take, nor on how long a client may leave an
answer lying. A handful of such connections would use up all that are allowed.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from cutlearn.app.web.limits import LIMITS, Limits


class TimedProtocol(H11Protocol):
    """HTTP/1.1 whose clients must send and take in time; else the connection is cut."""

    limits: Limits = LIMITS
    _head: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the head of a first request."""
        super().connection_made(transport)
        self._head = self.loop.call_later(self.limits.head_seconds, self._cut)

    def data_received(self, data: bytes) -> None:
        """Go on waiting where a head is still not whole."""
        super().data_received(data)
        cycle: Any = self.cycle  # None before the first request
        if cycle is not None and not cycle.response_complete:
            self._head = _stopped(self._head)
        elif self._head is None:
            self._head = self.loop.call_later(self.limits.head_seconds, self._cut)

    def pause_writing(self) -> None:
        """Wait for the client to take what was sent."""
        super().pause_writing()
        self._taking = self.loop.call_later(self.limits.send_seconds, self._cut)

    def resume_writing(self) -> None:
        """The client has taken it."""
        super().resume_writing()
        self._taking = _stopped(self._taking)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._head, self._taking = _stopped(self._head), _stopped(self._taking)
        super().connection_lost(exc)

    def _cut(self) -> None:
        self.transport.abort()


def _stopped(clock: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Stop a clock; there is none then."""
    if clock is not None:
        clock.cancel()
    return None
