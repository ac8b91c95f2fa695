"""What paramiko takes for a socket: a stream whose reads wait in paramiko's thread and whose writes never wait.

`recv` belongs to the reading thread. `send` may come from it (key exchange, login) or from the loop's (all else): what
cannot go at once is kept and written by the loop, so that no thread hangs in a write and no third one is needed. How
much is kept is bounded twice: who has much to send looks at `unsent` first, and a peer that never reads while it makes
us answer is cut off at UNSENT_MAX.
"""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from affidavit.broker.wire.link import system_code

LONGEST = 256 * 1024
"""The longest packet that is read, OpenSSH's bound too. RFC 4253, 6.1 asks for 35000 bytes; paramiko takes 4 GiB."""
CHUNK = 256 * 1024
"""Read from the socket at one go."""
UNSENT_LOW = 128 * 1024
"""Below this more may be put in."""
UNSENT_MAX = 1024 * 1024
"""Above this the peer does not read what it asks for."""
TICK_S = 0.1
"""How long a read waits before paramiko looks whether new keys are due."""


_QUICK_ACK: int | None = getattr(socket, "TCP_QUICKACK", None)
"""Linux only."""


def _nothing() -> None:
    """Nobody waits for room."""


class Overlong(Exception):
    """The peer announced a packet longer than LONGEST."""


class Pipe(ABC):
    """The part that both pipes share: reads from what was received, and what is known of the stream's end."""

    def __init__(self) -> None:
        self.ending: str | None = None
        """How the stream ended: EOF, ECONNRESET and the like, or ENOBUFS for a peer that does not read."""
        self.last_received = time.monotonic()
        self.drained: Callable[[], None] = _nothing
        """Called on the loop when more may be put in."""
        self._left = memoryview(b"")

    def recv(self, count: int) -> bytes:
        """At least one byte and at most `count`; none at the end. Raises TimeoutError after TICK_S, OSError."""
        if count > LONGEST:
            raise Overlong
        if not self._left:
            self._left = memoryview(self._receive())
            self.last_received = time.monotonic()
        data = bytes(self._left[:count])
        self._left = self._left[count:]
        return data

    def settimeout(self, timeout: float) -> None:  # noqa: B027 - nothing is left to subclasses
        """As paramiko expects of a socket; the tick is fixed here."""

    @property
    def _closed(self) -> bool:
        """As paramiko expects of a socket."""
        return self.closed

    @property
    @abstractmethod
    def closed(self) -> bool: ...

    @property
    @abstractmethod
    def unsent(self) -> int:
        """How many bytes wait to be written."""

    @abstractmethod
    def send(self, data: bytes) -> int:
        """Take all of `data`. Raises OSError once closed, or at UNSENT_MAX.

        A write that fails is no error here: what the peer said before it left is still to be read.
        """

    @abstractmethod
    def close(self) -> None:
        """End the stream both ways; a read that waits returns at once. From any thread; may be repeated."""

    @abstractmethod
    def release(self) -> None:
        """Close, and give up the loop's part. On the loop; may be repeated."""

    @abstractmethod
    def stop_reading(self) -> None:
        """Give up the reader's part. In the reading thread, at its end."""

    @abstractmethod
    def _receive(self) -> bytes: ...


class SocketPipe(Pipe):
    """A TCP connection. Reader and loop have a descriptor each, so that neither can close what the other waits on."""

    def __init__(self, sock: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._sock = sock
        self._loop = loop
        self._incoming = sock.dup()
        self._poll = select.poll()
        self._poll.register(self._incoming.fileno(), select.POLLIN)
        self._lock = threading.Lock()
        self._unsent = bytearray()
        self._shut = False
        self._broken = False
        """A write has failed."""
        self._released = False
        self._watching = False
        """The loop writes what is left."""

    @property
    def closed(self) -> bool:
        return self._shut

    @property
    def unsent(self) -> int:
        return len(self._unsent)

    def send(self, data: bytes) -> int:
        with self._lock:
            if self._shut:
                raise BrokenPipeError
            if self._broken:
                return len(data)
            rest = data
            if not self._unsent:
                rest = data[self._write(memoryview(data)) :]
                if not rest:
                    return len(data)
            if len(self._unsent) + len(rest) > UNSENT_MAX:
                self.ending = "ENOBUFS"
                raise BrokenPipeError
            self._unsent += rest
            if not self._watching:
                self._watching = True
                self._loop.call_soon_threadsafe(self._watch)
        return len(data)

    def close(self) -> None:
        with self._lock:
            if self._shut:
                return
            self._shut = True
            try:
                self._sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # The peer was first.

    def release(self) -> None:
        self.close()
        if not self._released:
            self._released = True
            self._loop.remove_writer(self._sock.fileno())
            self._sock.close()

    def stop_reading(self) -> None:
        self._incoming.close()

    def _receive(self) -> bytes:
        try:
            if not self._poll.poll(TICK_S * 1000):
                raise TimeoutError
            data = self._incoming.recv(CHUNK)
        except TimeoutError:
            raise
        except BlockingIOError:
            raise TimeoutError from None
        except OSError as error:
            self.ending = self.ending or system_code(error)
            raise
        if not data:
            self.ending = self.ending or "EOF"
        self._acknowledge()
        return data

    def _acknowledge(self) -> None:
        """Have the kernel acknowledge now. sshd keeps its small packets back until then (Nagle), which costs 40 ms for
        each that follows another: one at least in every set-up. The option lasts until the kernel thinks otherwise."""
        if _QUICK_ACK is not None:
            try:
                self._incoming.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)
            except OSError:
                pass  # Not TCP, or gone.

    def _write(self, data: memoryview) -> int:
        """How much the socket took; all, once a write has failed. The lock is held."""
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self._broken = True
            return len(data)

    def _watch(self) -> None:
        if not self._released:
            self._loop.add_writer(self._sock.fileno(), self._flush)

    def _flush(self) -> None:
        with self._lock:
            with memoryview(self._unsent) as view, view[:CHUNK] as part:
                sent = self._write(part)
            del self._unsent[: len(self._unsent) if self._broken else sent]
            if not self._unsent:
                self._watching = False
                self._loop.remove_writer(self._sock.fileno())
            low = len(self._unsent) < UNSENT_LOW
        if low:
            self.drained()
