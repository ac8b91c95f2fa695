"""The caller's end of a stream: its own standard input and outputs, while the command runs (interface, Streams).

Two threads, so that neither direction waits for the other: this one writes what the command writes, the other reads
standard input. Nothing of asyncio, nor of the broker's: a command starts as fast as a bare socket client.
"""

from __future__ import annotations

import hashlib
import os
import select
import threading

from affidavit.ipc.frame_format import END, FRAME_BYTES, HEAD, STDERR, STDIN, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

PARTS = {STDOUT: "stdout", STDERR: "stderr"}


class ReaderGone(Exception):
    """Whoever read an output went away, or cannot take it."""


class Live:
    """One stream, from its attachment on."""

    def __init__(self) -> None:
        self.whole = False
        """Everything that the command wrote was written."""
        self._hashes = {part: hashlib.sha256() for part in PARTS.values()}

    def sha256(self, part: str) -> str:
        """Of what was written of one output."""
        return f"sha256:{self._hashes[part].hexdigest()}"

    def carry(self, sock: socket.socket, begun: bytes, stdin: bytes | None) -> None:
        """Carry it to its end. `begun` was read of it already, `stdin` of standard input; None: none of that is sent.

        Raises ReaderGone.
        """
        if stdin is not None:
            threading.Thread(target=_send_input, args=(sock, stdin), daemon=True).start()
        incoming = _Incoming(sock, begun)
        while (frame := incoming.frame()) is not None:
            channel, data = frame
            if channel == END:
                self.whole = True
                return
            self._hashes[PARTS[channel]].update(data)
            _write(channel, data)


class _Incoming:
    """The broker's frames."""

    def __init__(self, sock: socket.socket, begun: bytes) -> None:
        self._sock = sock
        self._held = bytearray(begun)

    def frame(self) -> tuple[int, bytes] | None:
        """The next one; None where the stream is cut."""
        head = self._read(HEAD.size)
        if head is None:
            return None
        channel, length = HEAD.unpack(head)
        data = self._read(length)
        return (channel, data) if data is not None else None

    def _read(self, count: int) -> bytes | None:
        while len(self._held) < count:
            try:
                data = self._sock.recv(256 * 1024)
            except OSError:
                return None
            if not data:
                return None
            self._held += data
        taken = bytes(self._held[:count])
        del self._held[:count]
        return taken


def _send_input(sock: socket.socket, begun: bytes) -> None:
    """Send `begun`, then standard input to its end. A broker that is gone is noticed by the other thread."""
    try:
        for at in range(0, len(begun), FRAME_BYTES):
            _send(sock, STDIN, begun[at : at + FRAME_BYTES])
        while data := read_input():
            _send(sock, STDIN, data)
        _send(sock, END, b"")
    except OSError:
        pass


def _send(sock: socket.socket, channel: int, data: bytes) -> None:
    sock.sendall(HEAD.pack(channel, len(data)) + data)


def read_input() -> bytes:
    """What is there of standard input, once there is some; nothing at its end. rsync gives one that does not wait."""
    while True:
        try:
            return os.read(0, FRAME_BYTES)
        except BlockingIOError:
            _wait(0, select.POLLIN)


def _write(descriptor: int, data: bytes) -> None:
    """Write all of it; channels have the numbers of their descriptors."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            _wait(descriptor, select.POLLOUT)
        except OSError:
            raise ReaderGone from None


def _wait(descriptor: int, what: int) -> None:
    poll = select.poll()
    poll.register(descriptor, what)
    poll.poll()
