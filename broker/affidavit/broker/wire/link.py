"""A connected stream to one peer, over a non-blocking socket.

A link tells exactly when the first byte goes and how the stream ended: asyncio's own streams show an order of events
and an end of file, and a TLS stream cut without close_notify looks there like a whole one. Nothing here waits inside
a read or a write; `Readiness` is the one place where a link's owner waits.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

CHUNK = 64 * 1024
"""Bytes moved at one go in either direction: four TLS records. An exchange holds little more beside its request."""


class Ending(StrEnum):
    """How the peer's half of a stream ended."""

    FIN = "fin"
    """A plain TCP stream was closed in order. It proves nothing about what should still have come."""
    CLOSE_NOTIFY = "close_notify"
    RAGGED = "ragged"
    """TLS, and the TCP stream ended without close_notify."""
    RESET = "reset"
    ALERT = "alert"
    """TLS broke off: a fatal alert, or a record that is not authentic."""


@dataclass(frozen=True, slots=True)
class Received:
    """What one read gave: bytes in order, then how the stream ended, if it did.

    Both are empty where nothing was there. `system` is the system's code of an error.
    """

    data: bytes = b""
    ending: Ending | None = None
    system: str = ""


class Link(Protocol):
    """A connected stream. Its owner calls it from the loop alone."""

    @property
    def readiness(self) -> Readiness: ...

    @property
    def identity(self) -> str | None:
        """`sha256:` of the peer's leaf certificate in DER; None without TLS (R35)."""

    def send(self, data: memoryview) -> int:
        """Hand over a first part of `data` and return its length.

        0: the socket takes nothing now; call again with the same data once it does. Raises OSError.
        """

    def receive(self) -> Received:
        """Take what is there, at most about CHUNK bytes, without waiting. Errors are endings."""

    def close(self) -> None:
        """Close now, in order where that needs no waiting. May be called again."""


class Readiness:
    """Waits until a socket can move. Nothing is registered with the loop between waits.

    Owned by the loop's thread; one wait at a time.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = sock.fileno()
        self._waiter: asyncio.Future[None] | None = None
        self._readable = False

    async def wait(self, *, write: bool) -> bool:
        """Return once a read or, if asked, a write would not block, or after `wake`. True if it is a read."""
        self._waiter = self._loop.create_future()
        self._readable = False
        self._loop.add_reader(self._fd, self._on_readable)
        if write:
            self._loop.add_writer(self._fd, self.wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            self._loop.remove_reader(self._fd)
            if write:
                self._loop.remove_writer(self._fd)
        return self._readable

    def _on_readable(self) -> None:
        self._readable = True
        self.wake()

    def wake(self) -> bool:
        """End a wait; False if there is none."""
        if self._waiter is None:
            return False
        if not self._waiter.done():
            self._waiter.set_result(None)
        return True


class PlainLink:
    """A TCP stream as it is."""

    identity: str | None = None

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.readiness = Readiness(sock)

    def send(self, data: memoryview) -> int:
        try:
            return self._sock.send(data[:CHUNK])
        except BlockingIOError:
            return 0

    def receive(self) -> Received:
        try:
            data = self._sock.recv(CHUNK)
        except BlockingIOError:
            return Received()
        except OSError as error:
            return Received(ending=Ending.RESET, system=system_code(error))
        return Received(data) if data else Received(ending=Ending.FIN, system="EOF")

    def close(self) -> None:
        self._sock.close()


def system_code(error: OSError) -> str:
    """The system's own name for an error: ECONNRESET, or OpenSSL's reason; never the name of an exception class."""
    if isinstance(error, ssl.SSLError):
        return error.reason or "TLS_ERROR"
    return errno.errorcode.get(error.errno or 0, "EIO")
